"""NNI's names, versions 1.x and 2.x, and the library's algorithms."""
from __future__ import annotations

from typing import Dict, Tuple

# NNI's class -> the library's pruner.
PRUNERS: Dict[str, str] = {
    "LevelPruner": "level",
    "L1FilterPruner": "l1", "L1NormPruner": "l1",
    "L2FilterPruner": "l2", "L2NormPruner": "l2",
    "FPGMPruner": "fpgm",
    "SlimPruner": "slim",
    "ActivationAPoZRankFilterPruner": "apoz", "ActivationAPoZRankPruner": "apoz",
    "ActivationMeanRankFilterPruner": "mean_rank", "ActivationMeanRankPruner": "mean_rank",
    "TaylorFOWeightFilterPruner": "taylor", "TaylorFOWeightPruner": "taylor", "TaylorPruner": "taylor",
    "AGP_Pruner": "agp", "AGPPruner": "agp",
    "LinearPruner": "linear",
    "LotteryTicketPruner": "lottery_ticket",
    "ADMMPruner": "admm",
    "MovementPruner": "movement",
}

QUANTIZERS: Dict[str, str] = {
    "NaiveQuantizer": "naive",
    "QAT_Quantizer": "qat", "QATQuantizer": "qat",
    "DoReFaQuantizer": "dorefa", "DorefaQuantizer": "dorefa",
    "BNNQuantizer": "bnn",
    "LsqQuantizer": "lsq", "LSQQuantizer": "lsq", "LSQ_Quantizer": "lsq",
    "LsqPlusQuantizer": "lsq_plus", "LSQPlusQuantizer": "lsq_plus",
    "PACTQuantizer": "pact",
    "ObserverQuantizer": "ptq", "PtqQuantizer": "ptq",
}

# Names of NNI that are not classes here, and what to use instead.  See _search.py for other searches.
ABSENT: Dict[str, str] = {
    "AutoCompressPruner": "pare.prune(..., pruner='auto_compress')",
    "AMCPruner": "pare.compress()",
    "TransformerHeadPruner": "pare.prune(model, 'l1', config=[{'granularity': 'head', 'heads': ..., ...}])",
}

# NNI's option -> the library's, where the names differ.
OPTIONS: Dict[str, str] = {
    "pruning_algorithm": "base", "base_algo": "base", "num_iterations": "iterations",
    "statistics_batch_num": "training_steps", "training_batches": "training_steps",
    "sparsifying_training_batches": "training_steps", "sparsifying_training_epochs": "training_epochs",
}

LOTTERY_OPTIONS: Dict[str, str] = {"total_iteration": "prune_iterations", "reset_weight": "reset_weights"}

# Options that change no result: an example of inputs (the library reads shapes from the graph), a place for
# intermediate files, which are not written.
NO_EFFECT: Tuple[str, ...] = ("dummy_input", "device", "log_dir")

# What NNI trains with in compress(): of a torch.nn.Module, see _training.py; a pare.Model has a pare.Training.
TRAINERS: Tuple[str, ...] = ("evaluator", "trainer", "finetuner", "criterion", "traced_optimizer", "lr_scheduler")

# Arguments after the optimizer, by position, in NNI 1.x; after a text as third argument (NNI 2.x) these are others.
_FILTER: Tuple[str, ...] = ("dependency_aware", "dummy_input")
POSITIONS: Dict[str, Tuple[str, ...]] = {
    "L1FilterPruner": _FILTER, "L2FilterPruner": _FILTER, "FPGMPruner": _FILTER,
    "ActivationAPoZRankFilterPruner": ("activation", "statistics_batch_num") + _FILTER,
    "ActivationMeanRankFilterPruner": ("activation", "statistics_batch_num") + _FILTER,
    "TaylorFOWeightFilterPruner": ("statistics_batch_num",) + _FILTER,
    "AGP_Pruner": ("pruning_algorithm",), "AGPPruner": ("pruning_algorithm",),
    "LotteryTicketPruner": ("lr_scheduler", "reset_weights"),
    "QAT_Quantizer": ("dummy_input",), "LsqQuantizer": ("dummy_input",),
}
TEXT_POSITIONS: Dict[str, Tuple[str, ...]] = {
    "LevelPruner": ("mode", "balance_gran"),
    "L1NormPruner": ("mode", "dummy_input"), "L2NormPruner": ("mode", "dummy_input"), "FPGMPruner": ("mode", "dummy_input"),
    "AGPPruner": ("pruning_algorithm", "total_iteration", "log_dir", "keep_intermediate_result", "finetuner", "speedup",
                  "dummy_input", "evaluator", "pruning_params"),
    "LotteryTicketPruner": ("pruning_algorithm", "total_iteration", "log_dir", "keep_intermediate_result", "finetuner", "speedup",
                            "dummy_input", "evaluator", "reset_weight", "pruning_params"),
    "LinearPruner": ("pruning_algorithm", "total_iteration", "log_dir", "keep_intermediate_result", "finetuner", "speedup",
                     "dummy_input", "evaluator", "pruning_params"),
}
# With a function that trains: after the optimizer (NNI 2.0), or from the third argument on (NNI 2.6); with a
# TorchEvaluator as third argument (NNI 2.9) `evaluator` and what follows criterion.  By algorithm.
_TRAINED: Tuple[str, ...] = ("trainer", "criterion")
_ACTIVATION: Tuple[str, ...] = ("sparsifying_training_batches", "activation")
TRAINER_POSITIONS: Dict[str, Tuple[str, ...]] = {
    "agp": _TRAINED + ("num_iterations", "epochs_per_iteration", "pruning_algorithm"),
    "slim": _TRAINED + ("sparsifying_training_epochs", "scale") + _FILTER,
    "taylor": _TRAINED + ("sparsifying_training_batches",) + _FILTER,
    "apoz": _TRAINED + _ACTIVATION + _FILTER, "mean_rank": _TRAINED + _ACTIVATION + _FILTER,
}
_THIRD: Tuple[str, ...] = ("trainer", "traced_optimizer", "criterion")
THIRD_POSITIONS: Dict[str, Tuple[str, ...]] = {
    "slim": _THIRD + ("training_epochs", "scale", "mode"),
    "taylor": _THIRD + ("training_batches", "mode", "dummy_input"),
    "apoz": _THIRD + ("training_batches", "activation", "mode", "dummy_input"),
    "mean_rank": _THIRD + ("training_batches", "activation", "mode", "dummy_input"),
    "admm": _THIRD + ("iterations", "training_epochs", "granularity"),
    "movement": _THIRD + ("training_epochs", "warm_up_step", "cool_down_beginning_step"),
}
# After a TorchEvaluator, where that differs.
EVALUATOR_POSITIONS: Dict[str, Tuple[str, ...]] = {
    "movement": ("warm_up_step", "cool_down_beginning_step", "training_epochs", "training_steps", "regular_scale",
                 "movement_mode", "sparse_granularity"),
}

# Classes of NNI 2.x alone: compress() returns the model and the masks.
RETURN_MASKS: Tuple[str, ...] = ("L1NormPruner", "L2NormPruner", "ActivationAPoZRankPruner", "ActivationMeanRankPruner",
                                 "TaylorFOWeightPruner", "TaylorPruner", "LinearPruner", "MovementPruner")

# 'default' in op_types, and modules whose only parameter that NNI prunes is called weight.
DEFAULT_TYPES: Tuple[str, ...] = ("Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d",
                                  "Linear", "Bilinear", "PReLU", "Embedding", "EmbeddingBag")

BASES: Dict[str, str] = {"slim": "slim", "apoz": "apoz", "mean_activation": "mean_rank", "taylorfo": "taylor"}

# Pruners whose statistics come from forward and backward passes.
OBSERVED: Tuple[str, ...] = ("apoz", "mean_rank", "taylor")
# Pruners that change masks during training.
GRADUAL: Tuple[str, ...] = ("agp", "linear", "lottery_ticket", "admm", "movement")
# Pruners whose masks NNI computes by training in compress().
NEED_TRAINING: Tuple[str, ...] = OBSERVED + GRADUAL + ("slim",)
