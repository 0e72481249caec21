// peer_ort.mjs - ONNX Runtime's peer of the inference benchmark; README.md describes the protocol.
import fs from 'node:fs';
import readline from 'node:readline';
import { createRequire } from 'node:module';
import { readNpz } from '../tests/interop/npz.mjs';

const ort = createRequire(import.meta.url)('onnxruntime-node');
const [model, inputs, threads, output] = process.argv.slice(2);
const feeds = {};
for (const [name, a] of Object.entries(readNpz(inputs))) {
    feeds[name] = new ort.Tensor(a.type, a.data, a.dims);
}

// A field of /proc/self/status in kilobytes.
function kilobytes(field) {
    return Number(new RegExp(`${field}:\\s*(\\d+)`).exec(fs.readFileSync('/proc/self/status', 'latin1'))[1]);
}

const before = kilobytes('VmRSS');
const begin = process.hrtime.bigint();
const session = await ort.InferenceSession.create(model, {
    intraOpNumThreads: Number(threads),
    interOpNumThreads: 1,
    executionMode: 'sequential',
    graphOptimizationLevel: 'all',
    logSeverityLevel: 4,
});
for (const name of Object.keys(feeds)) {
    if (!session.inputNames.includes(name)) {
        delete feeds[name];
    }
}
const first = await session.run(feeds);
if (output === 'start') {
    console.log(`${Number(process.hrtime.bigint() - begin) / 1e6} ${kilobytes('VmHWM') - before}`);
    process.exit(0);
}
fs.writeFileSync(output, Buffer.concat(session.outputNames.map((name) => first[name])
    .filter((t) => t.type === 'float32')
    .map((t) => Buffer.from(t.data.buffer, t.data.byteOffset, t.data.byteLength))));

console.log('ready session');
for await (const line of readline.createInterface({ input: process.stdin })) {
    const times = [];
    for (let i = Number(line.split(' ')[1]); i > 0; i--) {
        const start = process.hrtime.bigint();
        await session.run(feeds);
        times.push((Number(process.hrtime.bigint() - start) / 1e6).toFixed(4));
    }
    console.log(times.join(' '));
}
