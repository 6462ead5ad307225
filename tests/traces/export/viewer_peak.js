// node viewer_peak.js SNAPSHOT PEAK: reads a snapshot within the limits of PyTorch's viewer (torch/utils/viz/MemoryViz.js:
// protocols 2 to 4, its opcodes, batches that fit one call) and exits with 0 where the most bytes in blocks between alloc
// and free_completed, as its "Active Memory Timeline" adds them, is PEAK.
'use strict';

const fs = require('fs');

const data = fs.readFileSync(process.argv[2]);

function unpickle(bytes) {
  let at = 0;
  const stack = [];
  const marks = [];
  const memo = [];
  const since = () => stack.splice(marks.pop());
  const take = n => bytes.subarray(at, (at += n));
  for (;;) {
    const op = bytes[at++];
    switch (op) {
      case 0x80:
        if (bytes[at] < 2 || bytes[at] > 4) throw new Error(`protocol ${bytes[at]}`);
        at += 1;
        break;
      case 0x28: marks.push(stack.length); break;
      case 0x2e: return stack.pop();
      case 0x7d: stack.push({}); break;
      case 0x5d: stack.push([]); break;
      case 0x65: {
        const items = since();
        if (items.length > 120000) throw new Error(`a batch of ${items.length}`);
        stack[stack.length - 1].push(...items);
        break;
      }
      case 0x75: {
        const items = since();
        for (let i = 0; i < items.length; i += 2) stack[stack.length - 1][items[i]] = items[i + 1];
        break;
      }
      case 0x4a: stack.push(take(4).readInt32LE(0)); break;
      case 0x4b: stack.push(bytes[at++]); break;
      case 0x4d: stack.push(take(2).readUInt16LE(0)); break;
      case 0x8a: {
        const digits = take(bytes[at++]);
        let value = 0n;
        for (let i = digits.length; i-- > 0;) value = (value << 8n) | BigInt(digits[i]);
        value = BigInt.asIntN(8 * digits.length, value);
        if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw new Error(`${value} is not exact in JavaScript`);
        stack.push(Number(value));
        break;
      }
      case 0x47: stack.push(take(8).readDoubleBE(0)); break;
      case 0x8c: stack.push(take(bytes[at++]).toString('utf8')); break;
      case 0x58: {
        const size = take(4).readUInt32LE(0);
        stack.push(take(size).toString('utf8'));
        break;
      }
      case 0x94: memo.push(stack[stack.length - 1]); break;
      case 0x68: stack.push(memo[bytes[at++]]); break;
      case 0x6a: stack.push(memo[take(4).readUInt32LE(0)]); break;
      case 0x86: stack.push(stack.splice(-2)); break;
      case 0x88: stack.push(true); break;
      case 0x89: stack.push(false); break;
      default: throw new Error(`opcode ${op} at byte ${at - 1}`);
    }
  }
}

const snapshot = unpickle(data);
const states = new Set(['active_allocated', 'active_pending_free', 'inactive']);
const live = new Map();
let bytes = 0;
const deltas = [];
let categories = 0;
let unknown = 0;
for (const event of snapshot.device_traces.flat()) {
  if (!Array.isArray(event.frames)) throw new Error('an entry without frames');
  for (const frame of event.frames)
    if (typeof frame.filename !== 'string' || typeof frame.name !== 'string') throw new Error('a frame without names');
  categories += 'category' in event ? 1 : 0;
  unknown += event.category === 'unknown' ? 1 : 0;
  if (event.action === 'alloc') {
    live.set(event.addr, event.size);
    deltas.push(event.size);
  } else if (event.action === 'free_completed') {
    if (live.has(event.addr)) live.delete(event.addr);
    else bytes += event.size; // there before the recording
    deltas.push(-event.size);
  }
}
if (categories > 0 && unknown === 0) throw new Error('categories without an "unknown"');
for (const segment of snapshot.segments)
  for (const block of segment.blocks) {
    if (!states.has(block.state)) throw new Error(`state ${block.state}`);
    if (block.state === 'active_allocated' && !live.has(block.address)) bytes += block.requested_size;
  }
let peak = bytes;
for (const delta of deltas) peak = Math.max(peak, (bytes += delta));
console.log(peak);
if (peak !== Number(process.argv[3])) {
  console.error(`peak ${peak}, expected ${process.argv[3]}`);
  process.exit(1);
}
