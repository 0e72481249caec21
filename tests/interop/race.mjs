// race.mjs - measure models in ONNX Runtime alternately: node race.mjs SECONDS THREADS SHAPE MODEL...
// The models have one input.  Prints the median seconds of each as JSON.  NODE_PATH is the folder of
// onnxruntime-node.
import { createRequire } from 'node:module';

const ort = createRequire(import.meta.url)('onnxruntime-node');
const [seconds, threads, shape, ...models] = process.argv.slice(2);
const dims = shape.split(',').map(Number);
const data = Float32Array.from({ length: dims.reduce((a, b) => a * b) }, (_, i) => (i * 37 % 101) / 101);
const sessions = [];
const times = models.map(() => []);

for (const m of models) {
    sessions.push(await ort.InferenceSession.create(m, {
        logSeverityLevel: 3, intraOpNumThreads: Number(threads), interOpNumThreads: 1,
    }));
}
const start = process.hrtime.bigint();
for (let n = 0; n < 20 || Number(process.hrtime.bigint() - start) < 1e9 * seconds; n++) {
    for (let i = 0; i < models.length; i++) {
        const s = sessions[i];
        const t = process.hrtime.bigint();
        await s.run({ [s.inputNames[0]]: new ort.Tensor('float32', data, dims) });
        if (n >= 10) times[i].push(Number(process.hrtime.bigint() - t) / 1e9);
    }
}
console.log(JSON.stringify(times.map((t) => t.sort((a, b) => a - b)[t.length >> 1])));
