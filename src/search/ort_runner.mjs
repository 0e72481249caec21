// ort_runner.mjs - time models in ONNX Runtime, for pare compress --for ort:
//     node ort_runner.mjs --threads N --seconds X --shape NAME=1,3,32,32 ... MODEL...
// Runs the models in turn on random inputs, and prints for each the microseconds of one run (10th
// percentile) on a line.  onnxruntime-node is found in ./node_modules or below NODE_PATH.
import { createRequire } from 'node:module';

const arrays = {
    float32: Float32Array, float64: Float64Array, uint8: Uint8Array, int8: Int8Array, int32: Int32Array,
    bool: Uint8Array, int64: BigInt64Array,
};
const models = [];
const shapes = {};
let threads = 0;
let seconds = 1;
for (let i = 2; i < process.argv.length; i++) {
    const word = process.argv[i];
    if (word === '--threads') {
        threads = Number(process.argv[++i]);
    } else if (word === '--seconds') {
        seconds = Number(process.argv[++i]);
    } else if (word === '--shape') {
        const at = process.argv[++i].lastIndexOf('=');
        shapes[process.argv[i].slice(0, at)] = process.argv[i].slice(at + 1).split(',').filter(Boolean).map(Number);
    } else {
        models.push(word);
    }
}

let ort;
try {
    ort = createRequire(process.cwd() + '/')('onnxruntime-node');
} catch {
    console.error('onnxruntime-node is not installed: npm install onnxruntime-node, or set NODE_PATH');
    process.exit(1);
}

function fill(type, dims) {
    const n = dims.reduce((a, b) => a * b, 1);
    const data = new arrays[type](n);
    for (let i = 0; i < n && type.startsWith('float'); i++) {
        data[i] = (i * 37 % 101) / 101;
    }
    return new ort.Tensor(type, data, dims);
}

const runs = [];
for (const model of models) {
    const session = await ort.InferenceSession.create(model, {
        intraOpNumThreads: threads, interOpNumThreads: 1, logSeverityLevel: 4,
    });
    const feeds = {};
    session.inputNames.forEach((name, i) => {
        feeds[name] = fill(session.inputMetadata?.[i]?.type ?? 'float32', shapes[name]);
    });
    runs.push({ session, feeds, times: [] });
}
const start = process.hrtime.bigint();
for (let n = 0; n < 13 || Number(process.hrtime.bigint() - start) < 1e9 * seconds; n++) {
    for (const r of runs) {
        const t = process.hrtime.bigint();
        await r.session.run(r.feeds);
        if (n >= 4) {
            r.times.push(Number(process.hrtime.bigint() - t) / 1e3);
        }
    }
}
for (const r of runs) {
    console.log(r.times.sort((a, b) => a - b)[Math.floor(r.times.length / 10)]);
}
