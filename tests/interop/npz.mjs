// npz.mjs - read NumPy's .npz (stored, not compressed) and write .npy, for the scripts that run ONNX Runtime.
import fs from 'node:fs';

const ARRAYS = { '<f4': Float32Array, '<i8': BigInt64Array, '<i4': Int32Array, '|u1': Uint8Array, '|i1': Int8Array,
                 '|b1': Uint8Array, '<f2': Uint16Array };
const TYPES = { '<f4': 'float32', '<i8': 'int64', '<i4': 'int32', '|u1': 'uint8', '|i1': 'int8', '|b1': 'bool',
                '<f2': 'float16' };

function parseNpy(buf) {
    const start = buf[6] === 1 ? 10 : 12;
    const length = buf[6] === 1 ? buf.readUInt16LE(8) : buf.readUInt32LE(8);
    const head = buf.toString('latin1', start, start + length);
    const descr = /'descr': *'([^']*)'/.exec(head)[1];
    const dims = /'shape': *\(([^)]*)\)/.exec(head)[1].split(',').filter((s) => s.trim()).map(Number);
    if (/'fortran_order': *True/.test(head) || !ARRAYS[descr]) {
        throw new Error(`cannot read an array of type ${descr} in this order`);
    }
    const data = buf.buffer.slice(buf.byteOffset + start + length, buf.byteOffset + buf.length);
    return { type: TYPES[descr], dims, data: new ARRAYS[descr](data) };
}

// { name: { type, dims, data } }
export function readNpz(path) {
    const zip = fs.readFileSync(path);
    const end = zip.lastIndexOf(Buffer.from('PK\x05\x06', 'latin1'));
    const arrays = {};
    let at = zip.readUInt32LE(end + 16);
    for (let i = zip.readUInt16LE(end + 10); i > 0; i--) {
        const nameLength = zip.readUInt16LE(at + 28);
        const name = zip.toString('utf8', at + 46, at + 46 + nameLength);
        const size = zip.readUInt32LE(at + 24);
        const local = zip.readUInt32LE(at + 42);
        if (zip.readUInt16LE(at + 10) !== 0) {
            throw new Error(`${path}: ${name} is compressed`);
        }
        const data = local + 30 + zip.readUInt16LE(local + 26) + zip.readUInt16LE(local + 28);
        arrays[name.replace(/\.npy$/, '')] = parseNpy(zip.subarray(data, data + size));
        at += 46 + nameLength + zip.readUInt16LE(at + 30) + zip.readUInt16LE(at + 32);
    }
    return arrays;
}

// float32 or int64
export function writeNpy(path, dims, floats) {
    const descr = floats instanceof BigInt64Array ? '<i8' : '<f4';
    let head = `{'descr': '${descr}', 'fortran_order': False, 'shape': (${dims.map((d) => `${d}, `).join('')}), }`;
    head = head.padEnd(Math.ceil((head.length + 11) / 64) * 64 - 11) + '\n';
    const start = Buffer.from(`\x93NUMPY\x01\x00\x00\x00${head}`, 'latin1');
    start.writeUInt16LE(head.length, 8);
    fs.writeFileSync(path, Buffer.concat([start, Buffer.from(floats.buffer, floats.byteOffset, floats.byteLength)]));
}
