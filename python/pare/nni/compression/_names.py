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

# Names of NNI that search for sparsities; the library has no counterpart under a class.
ABSENT: Dict[str, str] = {
    "SimulatedAnnealingPruner": "pare analyze sensitivity, then op_names with different sparsities",
    "NetAdaptPruner": "pare analyze sensitivity, then op_names with different sparsities",
    "SensitivityPruner": "pare analyze sensitivity, then op_names with different sparsities",
    "AutoCompressPruner": "pare.compress()",
    "AMCPruner": "pare.compress()",
}

# NNI's option -> the library's; "": it has no meaning here and is ignored.
OPTIONS: Dict[str, str] = {
    "pruning_algorithm": "base", "base_algo": "base",
    "dependency_aware": "", "dummy_input": "", "pruning_params": "", "evaluator": "", "trainer": "",
    "criterion": "", "traced_optimizer": "", "device": "", "model_inputs": "", "training_batches": "",
    "training_steps": "", "training_epochs": "", "statistics_batch_num": "", "activation": "",
}

BASES: Dict[str, str] = {"slim": "slim", "apoz": "apoz", "mean_activation": "mean_rank", "taylorfo": "taylor"}

# Pruners whose statistics come from forward and backward passes.
OBSERVED: Tuple[str, ...] = ("apoz", "mean_rank", "taylor")
# Pruners that change masks during training.
GRADUAL: Tuple[str, ...] = ("agp", "linear", "lottery_ticket", "admm", "movement")
