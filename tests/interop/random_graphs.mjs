// random_graphs.mjs - compare ONNX Runtime's outputs of random networks with Pare's.
// node random_graphs.mjs FOLDER      with the files of random_graphs.c; NODE_PATH as for ort.mjs.
// ONNX Runtime may crash: FOLDER/log has a line for each file that was started, and the next call
// continues after the last one.
import { createRequire } from 'node:module';
import { appendFileSync, existsSync, readFileSync, readdirSync } from 'node:fs';
import { readNpz } from './npz.mjs';

const ort = createRequire(import.meta.url)('onnxruntime-node');
const folder = process.argv[2];
const log = `${folder}/log`;
const before = existsSync(log) ? readFileSync(log, 'utf8').split('\n') : [];
const seen = new Set(before.filter(l => l.startsWith('at ')).map(l => l.slice(3)));
const note = (line) => appendFileSync(log, `${line}\n`);

// The largest difference as a multiple of the tolerance: 2e-4 of the largest value, plus 1e-5.
function distance(mine, theirs) {
    let most = 0, off = 0;
    if (String(theirs.dims) !== String(mine.dims)) return Infinity;
    for (const v of theirs.data) most = Math.max(most, Math.abs(Number(v)));
    for (let i = 0; i < theirs.data.length; i++) {
        const a = Number(theirs.data[i]), b = Number(mine.data[i]);
        if (Object.is(a, b)) continue;
        if (!(Math.abs(a - b) <= off)) off = Math.abs(a - b);
    }
    return off / (2e-4 * most + 1e-5);
}

for (const file of readdirSync(folder).filter(f => f.endsWith('.onnx') && !seen.has(f))) {
    const base = `${folder}/${file.slice(0, -5)}`;
    const feeds = {};
    let result;
    note(`at ${file}`);
    for (const [name, a] of Object.entries(readNpz(`${base}.in.npz`))) {
        feeds[name] = new ort.Tensor(a.type, a.data, a.dims);
    }
    try {
        const session = await ort.InferenceSession.create(`${base}.onnx`, { logSeverityLevel: 4 });
        result = await session.run(feeds);
    } catch (e) {
        note(`rejected ${String(e.message).replace(/\s+/g, ' ').slice(0, 160)}`);
        continue;
    }
    for (const [name, mine] of Object.entries(readNpz(`${base}.out.npz`))) {
        const d = distance(mine, result[name]);
        note(d <= 1 ? `same ${d}` : `different ${file} ${name}: ${d} times the tolerance`);
    }
    note('done');
}
