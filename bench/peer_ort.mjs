// peer_ort.mjs - ONNX Runtime's peer of the inference benchmark; README.md describes the protocol.
import fs from 'node:fs';
import readline from 'node:readline';
import { createRequire } from 'node:module';

const ort = createRequire(import.meta.url)('onnxruntime-node');
const [model, shape, threads, input, output] = process.argv.slice(2);
const raw = fs.readFileSync(input);
const floats = new Float32Array(raw.buffer.slice(raw.byteOffset, raw.byteOffset + raw.length));
const session = await ort.InferenceSession.create(model, {
    intraOpNumThreads: Number(threads),
    interOpNumThreads: 1,
    executionMode: 'sequential',
    graphOptimizationLevel: 'all',
    logSeverityLevel: 3,
});
const feeds = { [session.inputNames[0]]: new ort.Tensor('float32', floats, shape.split(',').map(Number)) };
const first = (await session.run(feeds))[session.outputNames[0]].data;
fs.writeFileSync(output, Buffer.from(first.buffer, first.byteOffset, first.byteLength));

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
