// The scale factors of an agent's hidden layers, read from its published policy.onnx.
//
// They are linear in the signal z. The graph computes the scales and shifts of all layers at once, as
// Split(z @ kernel + bias): scale of layer 1, shift of layer 1, scale of layer 2, ... The kernel is found by
// following `z`, whose name is part of the file's contract. ONNX files are protocol buffers.

const VARINT = 0;
const LENGTH = 2;
const FLOAT32 = 1;
const INT64 = 7;

/**
 * Return the modulated layers in their order, the output layer last: `{units, bias, kernel}`, kernel being one
 * Float32Array of Z numbers for each unit. There are none if the graph modulates nothing, or in another way.
 */
export function readModulation(bytes) {
  const graph = parseGraph(bytes);
  const product = graph.nodes.find((node) => node.type === "MatMul" && node.inputs[0] === "z");
  const sum = product && graph.nodes.find((node) => node.inputs.includes(product.outputs[0]));
  const split = sum && graph.nodes.find((node) => node.type === "Split" && node.inputs[0] === sum.outputs[0]);
  const kernel = graph.tensors.get(product?.inputs[1]);
  const bias = graph.tensors.get(sum?.inputs.find((name) => graph.tensors.has(name)));
  const sizes = graph.tensors.get(split?.inputs[1]);
  if (!kernel || !bias || !sizes) return [];
  return scaleBlocks([...sizes.numbers].map(Number)).map(({ units, first }) => ({
    units,
    bias: bias.numbers.slice(first, first + units),
    kernel: Array.from({ length: units }, (_, unit) => column(kernel, first + unit)),
  }));
}

/** The scale factor of each unit of a layer under a signal. */
export function gainsOf(layer, z) {
  return Float32Array.from(layer.kernel, (weights, unit) => {
    let gain = layer.bias[unit];
    for (let i = 0; i < weights.length; i += 1) gain += weights[i] * z[i];
    return gain;
  });
}

/** Every other block of the split holds scales, those between hold shifts. */
function scaleBlocks(sizes) {
  const blocks = [];
  let first = 0;
  sizes.forEach((units, index) => {
    if (index % 2 === 0) blocks.push({ units, first });
    first += units;
  });
  return blocks;
}

function column({ dims, numbers }, index) {
  return Float32Array.from({ length: dims[0] }, (_, row) => numbers[row * dims[1] + index]);
}

function parseGraph(bytes) {
  const [graph] = fields(bytes).filter(({ number }) => number === 7);
  const parts = fields(graph.value);
  const tensors = parts.filter(({ number }) => number === 5).map(({ value }) => parseTensor(value));
  return {
    nodes: parts.filter(({ number }) => number === 1).map(({ value }) => parseNode(value)),
    tensors: new Map(tensors.map((tensor) => [tensor.name, tensor])),
  };
}

function parseNode(bytes) {
  const parts = fields(bytes);
  const texts = (wanted) => parts.filter(({ number }) => number === wanted).map(({ value }) => text(value));
  return { inputs: texts(1), outputs: texts(2), type: texts(4)[0] };
}

function parseTensor(bytes) {
  const tensor = { dims: [], name: "", numbers: [] };
  let type = 0;
  let raw = new Uint8Array();
  for (const { number, wire, value } of fields(bytes)) {
    if (number === 1) tensor.dims.push(...(wire === LENGTH ? varints(value) : [value]));
    else if (number === 2) type = value;
    else if (number === 8) tensor.name = text(value);
    else if (number === 9) raw = value;
  }
  const aligned = raw.slice().buffer;
  if (type === FLOAT32) tensor.numbers = new Float32Array(aligned);
  if (type === INT64) tensor.numbers = new BigInt64Array(aligned);
  return tensor;
}

function text(bytes) {
  return new TextDecoder().decode(bytes);
}

/** The fields of a message: number, wire type, and a number or bytes. */
function fields(bytes) {
  const found = [];
  for (let at = 0; at < bytes.length; ) {
    const key = varint(bytes, at);
    const [number, wire] = [key.value >>> 3, key.value & 7];
    at = key.end;
    if (wire === VARINT) {
      const { value, end } = varint(bytes, at);
      found.push({ number, wire, value });
      at = end;
    } else if (wire === LENGTH) {
      const { value: size, end } = varint(bytes, at);
      found.push({ number, wire, value: bytes.subarray(end, end + size) });
      at = end + size;
    } else {
      at += wire === 1 ? 8 : 4; // fixed 64 and 32 bits, which nothing read here uses
    }
  }
  return found;
}

function varints(bytes) {
  const found = [];
  for (let at = 0; at < bytes.length; ) {
    const { value, end } = varint(bytes, at);
    found.push(value);
    at = end;
  }
  return found;
}

function varint(bytes, start) {
  let value = 0;
  let factor = 1;
  let at = start;
  for (;;) {
    const byte = bytes[at];
    at += 1;
    value += (byte & 127) * factor;
    factor *= 128;
    if (byte < 128) return { value, end: at };
  }
}
