// ort_server.mjs - run models in ONNX Runtime: a line of JSON per request, a line of JSON per answer.
//
// request: {"model": FILE, "input": FILE.npz, "output": FOLDER, "level": "all" or "disabled"}
// answer:  {"names": [...]}: FOLDER/0.npy, 1.npy, ... hold the outputs; or {"error": TEXT}
// NODE_PATH names the folder of onnxruntime-node.
import fs from 'node:fs';
import { createRequire } from 'node:module';
import readline from 'node:readline';
import { readNpz } from '../interop/npz.mjs';

const ort = createRequire(import.meta.url)('onnxruntime-node');
const DESCR = { float32: '<f4', float64: '<f8', int64: '<i8', int32: '<i4', uint8: '|u1', int8: '|i1', bool: '|b1',
                float16: '<f2', uint16: '<u2', int16: '<i2', uint32: '<u4', uint64: '<u8' };
let last = { key: '', session: null };

function writeNpy(path, tensor) {
    const shape = tensor.dims.map((d) => `${d}, `).join('');
    let head = `{'descr': '${DESCR[tensor.type]}', 'fortran_order': False, 'shape': (${shape}), }`;
    head = head.padEnd(Math.ceil((head.length + 11) / 64) * 64 - 11) + '\n';
    const start = Buffer.from(`\x93NUMPY\x01\x00\x00\x00${head}`, 'latin1');
    start.writeUInt16LE(head.length, 8);
    const { buffer, byteOffset, byteLength } = tensor.data;
    fs.writeFileSync(path, Buffer.concat([start, Buffer.from(buffer, byteOffset, byteLength)]));
}

async function answer(job) {
    const key = `${job.model} ${job.level}`;
    if (last.key !== key) {
        await last.session?.release();
        last = { key: '', session: null };
        last.session = await ort.InferenceSession.create(job.model, {
            logSeverityLevel: 4, graphOptimizationLevel: job.level,
            extra: { session: { qdq_matmulnbits_accuracy_level: '1' } },
        });
        last.key = key;
    }
    const feeds = {};
    for (const [name, a] of Object.entries(readNpz(job.input))) {
        if (last.session.inputNames.includes(name)) {
            feeds[name] = new ort.Tensor(a.type, a.data, a.dims);
        }
    }
    const result = await last.session.run(feeds);
    const names = last.session.outputNames;
    names.forEach((name, i) => writeNpy(`${job.output}/${i}.npy`, result[name]));
    return { names };
}

for await (const line of readline.createInterface({ input: process.stdin })) {
    let reply;
    try {
        reply = await answer(JSON.parse(line));
    } catch (e) {
        last = { key: '', session: null };
        reply = { error: String(e.message ?? e).split('\n')[0] };
    }
    console.log(JSON.stringify(reply));
}
