# test_seeds.py - the code of NNI's documents on the digits: only import lines differ, and what they leave open.
import copy
import unittest

import numpy as np

from common import Folder, digits, pare

try:
    import torch
except ImportError:
    torch = None

if torch is not None:
    from pare.nni.compression.torch import WeightMasker, Pruner

    class Mnist(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = torch.nn.Conv2d(1, 8, 3, padding=1)
            self.relu1 = torch.nn.ReLU()
            self.conv2 = torch.nn.Conv2d(8, 16, 3)
            self.fc1 = torch.nn.Linear(16 * 3 * 3, 32)
            self.fc2 = torch.nn.Linear(32, 10)

        def forward(self, x):
            x = torch.nn.functional.max_pool2d(torch.relu(self.conv2(self.relu1(self.conv1(x)))), 2)
            return self.fc2(torch.relu(self.fc1(x.flatten(1))))

    # ---- custom pruner (000, 002) ----
    class MyMasker(WeightMasker):
        def __init__(self, model, pruner):
            super().__init__(model, pruner)
            # You can do some initialization here, such as collecting some statistics data
            # if it is necessary for your algorithms to calculate the masks.

        def calc_mask(self, sparsity, wrapper, wrapper_idx=None):
            # calculate the masks based on the wrapper.weight, and sparsity,
            # and anything else
            w = wrapper.weight.abs()
            mask = w > torch.quantile(w.flatten(), sparsity)
            return {'weight_mask': mask}

    class MyPruner(Pruner):
        def __init__(self, model, config_list, optimizer):
            super().__init__(model, config_list, optimizer)
            self.set_wrappers_attribute("if_calculated", False)
            # construct a weight masker instance
            self.masker = MyMasker(model, self)

        def calc_mask(self, wrapper, wrapper_idx=None):
            sparsity = wrapper.config['sparsity']
            if wrapper.if_calculated:
                # Already pruned, do not prune again as a one-shot pruner
                return None
            else:
                # call your masker to actually calcuate the mask for this layer
                masks = self.masker.calc_mask(sparsity=sparsity, wrapper=wrapper, wrapper_idx=wrapper_idx)
                wrapper.if_calculated = True
                return masks

    # ---- collector (001) ----
    class CollectingMasker(WeightMasker):
        def __init__(self, model, pruner):
            super().__init__(model, pruner)
            # Set attribute `collected_activation` for all wrappers to store
            # activations for each layer
            self.pruner.set_wrappers_attribute("collected_activation", [])
            self.activation = torch.nn.functional.relu

            def collector(wrapper, input_, output):
                # The collected activation can be accessed via each wrapper's collected_activation
                # attribute
                wrapper.collected_activation.append(self.activation(output.detach().cpu()))

            self.pruner.hook_id = self.pruner.add_activation_collector(collector)

    class CollectingPruner(MyPruner):
        def __init__(self, model, config_list, optimizer):
            super().__init__(model, config_list, optimizer)
            self.masker = CollectingMasker(model, self)

        def calc_mask(self, wrapper, wrapper_idx=None):
            if wrapper.if_calculated or not wrapper.collected_activation:
                return None
            a = torch.cat(wrapper.collected_activation)
            mean = a.mean([i for i in range(a.dim()) if i != 1])
            keep = mean > torch.quantile(mean, wrapper.config['sparsity'])
            wrapper.if_calculated = True
            return {'weight_mask': keep.view(-1, *[1] * (wrapper.weight.dim() - 1)).expand_as(wrapper.weight)}

    # ---- custom quantizers (000, 002, 004): config, no wrapper ----
    from pare.nni.compression.pytorch import Quantizer

    class YourQuantizer(Quantizer):
        def __init__(self, model, config_list):
            """
            Suggest you to use the NNI defined spec for config
            """
            super().__init__(model, config_list)

        def quantize_weight(self, weight, config, **kwargs):
            steps = 2 ** (config['quant_bits']['weight'] - 1) - 1
            scale = weight.abs().max() / steps
            new_weight = torch.round(weight / scale) * scale
            return new_weight

        def quantize_output(self, output, config, **kwargs):
            new_output = torch.round(output * 16) / 16
            return new_output

        def quantize_input(self, *inputs, config, **kwargs):
            new_input = torch.round(inputs[0] * 64) / 64
            return new_input

        def update_epoch(self, epoch_num):
            pass

        def step(self):
            """
            Can do some processing based on the model or weights binded
            in the func bind_model
            """
            pass

    # ---- quantizer with a wrapper (001) ----
    class WrapperQuantizer(Quantizer):
        """
        Base quantizer for pytorch quantizer
        """
        def quantize_weight(self, weight, wrapper, **kwargs):
            return torch.round(weight * 64) / 64

        def quantize_output(self, output, wrapper, **kwargs):
            return torch.round(output * 16) / 16

        def quantize_input(self, *inputs, wrapper, **kwargs):
            return torch.round(inputs[0] * 16) / 16

    # ---- backward function (000, 002) ----
    from pare.nni.compression.torch.compressor import Quantizer, QuantGrad, QuantType  # noqa: F811

    class ClipGrad(QuantGrad):
        @staticmethod
        def quant_backward(tensor, grad_output, quant_type):
            # for quant_output function, set grad to zero if the absolute value of tensor is larger than 1
            if quant_type == QuantType.QUANT_OUTPUT:
                grad_output[torch.abs(tensor) > 1] = 0
            return grad_output

    class ClippedQuantizer(YourQuantizer):
        def __init__(self, model, config_list):
            super().__init__(model, config_list)
            # set your customized backward function to overwrite default backward function
            self.quant_grad = ClipGrad

    # ---- the same in 004 ----
    class NewClipGrad(QuantGrad):
        @staticmethod
        def quant_backward(tensor, grad_output, quant_type):
            if quant_type == QuantType.OUTPUT:
                grad_output[tensor.abs() > 1] = 0
            return grad_output

    class _YourQuantizer(YourQuantizer):
        def __init__(self, model, config_list):
            super().__init__(model, config_list)
            self.quant_grad = NewClipGrad


def train(model, optimizer, epochs=1, hook=None, teacher=None):
    x, y = (torch.from_numpy(a) for a in digits())
    for epoch in range(epochs):
        if hook:
            hook.update_epoch(epoch)
        for i in range(0, len(x), 64):
            optimizer.zero_grad()
            out = model(x[i:i + 64])
            loss = torch.nn.functional.cross_entropy(out, y[i:i + 64])
            if teacher is not None:
                with torch.no_grad():
                    soft = torch.softmax(teacher(x[i:i + 64]) / 4, 1)
                loss = loss + 16 * torch.nn.functional.kl_div(torch.log_softmax(out / 4, 1), soft, reduction="batchmean")
            loss.backward()
            optimizer.step()
            if hook:
                hook.step()


def accuracy(model):
    x, y = (torch.from_numpy(a) for a in digits("test"))
    model.eval()
    with torch.no_grad():
        right = (model(x).argmax(1) == y).float().mean().item()
    model.train()
    return right


@unittest.skipUnless(torch, "needs PyTorch")
class Seeds(Folder):
    @classmethod
    def setUpClass(cls):
        torch.manual_seed(0)
        torch.set_num_threads(1)
        cls.trained = Mnist()
        train(cls.trained, torch.optim.Adam(cls.trained.parameters(), lr=3e-3), 6)
        cls.base = accuracy(cls.trained)
        assert cls.base > 0.9, cls.base

    def setUp(self):
        super().setUp()
        self.model = copy.deepcopy(self.trained)

    def zeros(self, layer):
        return float((getattr(layer, "module", layer).weight == 0).float().mean())

    def test_custom_masker_and_pruner(self):
        model = self.model
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        pruner = MyPruner(model, [{'sparsity': 0.5, 'op_types': ['default']}], optimizer)
        model = pruner.compress()
        self.assertAlmostEqual(self.zeros(model.conv2), 0.5, 2)
        mask = model.conv2.weight_mask.clone()
        train(model, optimizer)
        self.assertTrue(torch.equal(mask, model.conv2.weight_mask))
        model(torch.zeros(1, 1, 8, 8))                   # masks are applied in forward
        self.assertTrue(bool((model.conv2.module.weight[mask == 0] == 0).all()))
        self.assertGreater(accuracy(model), 0.9)

    def test_collector(self):
        model = self.model
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        pruner = CollectingPruner(model, [{'sparsity': 0.5, 'op_types': ['Conv2d']}], optimizer)
        model = pruner.compress()
        self.assertEqual(self.zeros(model.conv2), 0)     # nothing is collected yet
        train(model, optimizer)
        self.assertAlmostEqual(float(1 - model.conv2.weight_mask.mean()), 0.5, 1)
        count = len(model.conv2.collected_activation)
        self.assertGreater(count, 1)
        collector_id = pruner.hook_id
        pruner.remove_activation_collector(collector_id)
        model(torch.zeros(1, 1, 8, 8))
        self.assertEqual(len(model.conv2.collected_activation), count)

    def test_level_pruner(self):
        model = self.model
        from pare.nni.compression.torch import LevelPruner

        configure_list = [{
            'sparsity': 0.7,
            'op_types': ['Conv2d', 'Linear'],
        }]

        optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9, weight_decay=1e-4)
        pruner = LevelPruner(model, configure_list, optimizer)
        model = pruner.compress()
        for layer in (model.conv1, model.conv2, model.fc1, model.fc2):
            w = self.trained.get_submodule(layer.name).weight.detach().abs().flatten()
            k = int(w.numel() * 0.7)
            threshold = torch.topk(w, k, largest=False)[0].max()       # NNI's formula
            self.assertTrue(torch.equal(layer.weight_mask.flatten() > 0, w > threshold), layer.name)
        train(model, optimizer)
        self.assertGreater(self.zeros(model.fc1), 0.69)

    def test_dorefa_quantizer(self):
        model = self.model
        from pare.nni.compression.torch import DoReFaQuantizer

        configure_list = [{
            'quant_types': ['weight'],
            'quant_bits': {
                'weight': 8,
            },
            'op_types': ['Conv2d', 'Linear']
        }]
        optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9, weight_decay=1e-4)
        quantizer = DoReFaQuantizer(model, configure_list, optimizer)
        quantizer.compress()
        train(model, optimizer, 2)
        self.assertLessEqual(len(torch.unique(model.conv2.module.weight)), 256)
        self.assertGreater(accuracy(model), 0.85)

    def test_custom_quantizer(self):
        for quantizer in (YourQuantizer, WrapperQuantizer):
            model = copy.deepcopy(self.trained)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
            quantizer(model, [{'quant_types': ['weight', 'input', 'output'], 'quant_bits': {'weight': 8, 'input': 8, 'output': 8},
                               'op_types': ['Conv2d', 'Linear']}]).compress()
            before = model.conv1.module.old_weight.detach().clone()
            train(model, optimizer)
            self.assertFalse(torch.equal(before, model.conv1.module.old_weight))    # straight-through gradients
            self.assertGreater(accuracy(model), 0.85)
            out = model.conv1(torch.rand(2, 1, 8, 8)) * 16
            self.assertTrue(torch.equal(out, torch.round(out)))

    def test_clip_grad(self):
        for quantizer in (ClippedQuantizer, _YourQuantizer):
            layer = torch.nn.Sequential(torch.nn.Linear(4, 4))
            quantizer(layer, [{'quant_types': ['output'], 'quant_bits': 8, 'op_types': ['Linear']}]).compress()
            x = torch.randn(64, 4, requires_grad=True)
            y = layer(3 * x)
            float_out = layer[0].module(3 * x)
            g, = torch.autograd.grad(y.sum(), float_out, allow_unused=True)
            self.assertIsNone(g)                          # another graph; compare the weight's gradient
            y.sum().backward()
            got = layer[0].module.bias.grad
            self.assertTrue(torch.equal(got, (float_out.abs() <= 1).float().sum(0)))

    def test_config_lists_of_the_tutorial(self):
        from pare.nni.compression.pytorch import LevelPruner, QAT_Quantizer
        pruner = LevelPruner(self.model, [
            {
                'sparsity': 0.8,
                'op_types': ['default']
            },
            {
                'sparsity': 0.6,
                'op_names': ['conv1', 'conv2']
            },
            {
                'exclude': True,
                'op_names': ['fc2']
            }
        ])
        pruner.compress()
        self.assertAlmostEqual(self.zeros(self.model.fc1), 0.8, 2)
        self.assertAlmostEqual(self.zeros(self.model.conv1), 0.6, 1)
        self.assertEqual(self.zeros(self.model.fc2), 0)
        config_list = [{
                'quant_types': ['weight'],
                'quant_bits': 8,
                'op_names': ['conv1']
            }, {
                'quant_types': ['weight'],
                'quant_bits': 4,
                'quant_start_step': 0,
                'op_names': ['conv2']
            }, {
                'quant_types': ['weight'],
                'quant_bits': 3,
                'op_names': ['fc1']
            }, {
                'quant_types': ['weight'],
                'quant_bits': 2,
                'op_names': ['fc2']
            }]
        model = copy.deepcopy(self.trained)
        QAT_Quantizer(model, config_list, torch.optim.SGD(model.parameters(), lr=0.01)).compress()
        for name, bits in (("conv1", 8), ("conv2", 4), ("fc1", 3), ("fc2", 2)):
            self.assertLessEqual(len(torch.unique(model.get_submodule(name).module.weight)), 2 ** bits)

    def test_export_and_apply_masks(self):
        from pare.nni.compression.pytorch import L1FilterPruner, apply_compression_results
        model, device = self.model, None
        pruner = L1FilterPruner(model, [{'sparsity': 0.5, 'op_types': ['Conv2d']}])
        pruner.compress()
        # Export weights and masks of the model.
        pruner.export_model(model_path='model.pth', mask_path='mask.pth')
        state = torch.load('model.pth')
        self.assertEqual(set(state), set(Mnist().state_dict()))
        mask_file = 'mask.pth'
        masks = torch.load(mask_file)
        self.assertEqual(set(masks), {"conv1", "conv2"})
        fresh = copy.deepcopy(self.trained)
        apply_compression_results(fresh, mask_file, device)
        for key in state:
            self.assertTrue(torch.equal(state[key], fresh.state_dict()[key]), key)
        pruner.export_model(model_path='model.pth', mask_path='mask.pth', onnx_path='model.onnx', input_shape=[1, 1, 8, 8])
        x = torch.rand(5, 1, 8, 8)
        got = pare.load('model.onnx').run(x)["output"]
        np.testing.assert_allclose(got, fresh(x).detach().numpy(), atol=1e-4)

    def test_qat_save_and_load(self):
        from pare.nni.compression.pytorch import QAT_Quantizer
        config_list = [{'quant_types': ['weight', 'output'], 'quant_bits': {'weight': 8, 'output': 8},
                        'op_types': ['Conv2d', 'Linear']}]
        model = self.model
        opt = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.5)
        QAT_Quantizer(model, config_list, opt).compress()
        train(model, opt, 2)
        x = torch.from_numpy(digits("test")[0])
        model.eval()
        expected = model(x)
        # save the quantized model
        torch.save(model.state_dict(), "quantized_model.pth")

        # simulate loading
        qmodel_load = Mnist()
        optimizer = torch.optim.SGD(qmodel_load.parameters(), lr=0.01, momentum=0.5)
        quantizer = QAT_Quantizer(qmodel_load, config_list, optimizer)
        quantizer.compress()

        # load the quantized model
        qmodel_load.load_state_dict(torch.load("quantized_model.pth"))

        # get scale, zero_point and weight of conv1 of the loaded model
        conv1 = qmodel_load.conv1
        scale = conv1.module.scale
        zero_point = conv1.module.zero_point
        weight = conv1.module.weight
        self.assertTrue(torch.equal(scale, model.conv1.module.scale))
        self.assertTrue(torch.equal(zero_point, model.conv1.module.zero_point))
        self.assertGreater(float(scale), 0)
        steps = weight / scale
        self.assertLess(float((steps - steps.round()).abs().max()), 1e-3)
        qmodel_load.eval()
        self.assertLess(float((qmodel_load(x) - expected).abs().max()), 1e-5)

    def test_model_speedup(self):
        from pare.nni.compression.pytorch import apply_compression_results, ModelSpeedup, L1FilterPruner  # noqa: F401
        config, device = {'input_shape': (2, 1, 8, 8)}, "cpu"
        pruner = L1FilterPruner(self.model, [{'sparsity': 0.5, 'op_types': ['Conv2d']}])
        pruner.compress()
        pruner.export_model('model.pth', masks_file := 'mask.pth')
        model = Mnist()
        model.load_state_dict(torch.load('model.pth'))
        x = torch.rand(7, 1, 8, 8)
        expected = model(x)
        dummy_input = torch.randn(config['input_shape']).to(device)
        m_speedup = ModelSpeedup(model, dummy_input, masks_file, device)
        m_speedup.speedup_model()
        self.assertEqual(tuple(model.conv2.weight.shape), (8, 4, 3, 3))
        self.assertEqual(model.fc1.in_features, 8 * 9)
        self.assertLess(float((model(x) - expected).abs().max()), 1e-4)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)     # it can be trained
        train(model, optimizer, 2, teacher=self.trained)             # with distillation
        self.assertGreater(accuracy(model), 0.85)

    def test_update_epoch_and_step(self):
        from pare.nni.compression.pytorch import AGPPruner
        model = self.model
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        pruner = AGPPruner(model, [{'initial_sparsity': 0.0, 'final_sparsity': 0.8, 'start_epoch': 0, 'end_epoch': 3,
                                    'frequency': 1, 'op_types': ['Conv2d', 'Linear']}], optimizer)
        model = pruner.compress()
        seen = []
        for epoch in range(4):
            pruner.update_epoch(epoch)
            train(model, optimizer)
            pruner.step()
            seen.append(self.zeros(model.fc1))
        self.assertEqual(seen, sorted(seen))
        span = 3 - 0 - 1                                 # NNI: (end - start - 1) // frequency * frequency
        for e, got in enumerate(seen):
            self.assertAlmostEqual(got, 0.8 * (1 - (1 - min(e / span, 1)) ** 3), 2)


if __name__ == "__main__":
    unittest.main()
