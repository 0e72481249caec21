// operators.mjs - run the models of a folder in ONNX Runtime: node operators.mjs FOLDER
// FOLDER/x.onnx with x.in.npz gives x.<i>.npy for each output, as float32, or x.error.  NODE_PATH as
// for ort.mjs.
import { createRequire } from 'node:module';
import { readdirSync, writeFileSync } from 'node:fs';
import { readNpz, writeNpy } from './npz.mjs';

const ort = createRequire(import.meta.url)('onnxruntime-node');
const folder = process.argv[2];

for (const file of readdirSync(folder).filter(f => f.endsWith('.onnx'))) {
    const base = `${folder}/${file.slice(0, -5)}`;
    const feeds = {};
    for (const [name, a] of Object.entries(readNpz(`${base}.in.npz`))) {
        feeds[name] = new ort.Tensor(a.type, a.data, a.dims);
    }
    try {
        const session = await ort.InferenceSession.create(`${base}.onnx`, { logSeverityLevel: 4 });
        const result = await session.run(feeds);
        session.outputNames.forEach((name, i) => {
            const y = result[name];
            writeNpy(`${base}.${i}.npy`, y.dims, Float32Array.from(y.data, Number));
        });
    } catch (e) {
        writeFileSync(`${base}.error`, String(e.message).replace(/\s+/g, ' ').slice(0, 300));
    }
}
