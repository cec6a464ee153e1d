// The arrays of a .npz of float32, as numpy's savez_compressed writes it: a zip of .npy files.

/** @returns {Promise<Object<string, {shape: number[], data: Float32Array}>>} by name */
export async function readNpz(buffer) {
  const view = new DataView(buffer), text = new TextDecoder("latin1"), arrays = {};
  const end = buffer.byteLength - 22; // the zip's last record, without a comment
  if (view.getUint32(end, true) !== 0x06054b50) throw new Error("This is no .npz that numpy wrote.");
  let at = view.getUint32(end + 16, true);
  for (let left = view.getUint16(end + 10, true); left > 0; left--) {
    const short = (offset) => view.getUint16(at + offset, true), long = (offset) => view.getUint32(at + offset, true);
    const name = text.decode(new Uint8Array(buffer, at + 46, short(28))).replace(/\.npy$/, "");
    const local = long(42); // where the file's own header begins, which has names of other lengths
    const start = local + 30 + view.getUint16(local + 26, true) + view.getUint16(local + 28, true);
    const packed = new Uint8Array(buffer, start, long(20));
    arrays[name] = readNpy(short(10) === 8 ? await inflate(packed) : packed.slice().buffer, text);
    at += 46 + short(28) + short(30) + short(32);
  }
  return arrays;
}

function inflate(bytes) {
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"))).arrayBuffer();
}

function readNpy(buffer, text) {
  const length = new DataView(buffer).getUint16(8, true), header = text.decode(new Uint8Array(buffer, 10, length));
  const found = /'descr': '<f4', 'fortran_order': False, 'shape': \(([\d, ]+)\)/.exec(header);
  if (!found) throw new Error(`Only float32 in C order is read. Received: ${header}`);
  return { shape: found[1].split(",").filter((part) => part.trim()).map(Number), data: new Float32Array(buffer, 10 + length) };
}
