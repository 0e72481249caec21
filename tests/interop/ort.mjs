// ort.mjs - run models in ONNX Runtime: node ort.mjs MODEL INPUT.npz OUTPUT.npy [...]
// Writes the first output of each model.  NODE_PATH is the folder of onnxruntime-node.
// Inputs of layers with integer weights stay float: by default, ONNX Runtime quantizes them to 8 bits where
// it fuses DequantizeLinear and MatMul to MatMulNBits.
// ORT_LEVEL (disabled, basic, extended, all) is the graph optimization level.
import { createRequire } from 'node:module';
import { readNpz, writeNpy } from './npz.mjs';

const ort = createRequire(import.meta.url)('onnxruntime-node');
const jobs = process.argv.slice(2);
const sessions = {};
const options = { logSeverityLevel: 3, extra: { session: { qdq_matmulnbits_accuracy_level: '1' } } };
if (process.env.ORT_LEVEL) {
    options.graphOptimizationLevel = process.env.ORT_LEVEL;
}

for (let i = 0; i + 2 < jobs.length; i += 3) {
    const [model, input, output] = jobs.slice(i, i + 3);
    sessions[model] ??= await ort.InferenceSession.create(model, options);
    const feeds = {};
    for (const [name, a] of Object.entries(readNpz(input))) {
        feeds[name] = new ort.Tensor(a.type, a.data, a.dims);
    }
    const result = (await sessions[model].run(feeds))[sessions[model].outputNames[0]];
    writeNpy(output, result.dims, result.data);
}
