// Everything known about a block or an op, in words; for the panel and, shortened, for the tooltip.

import { Block, DeviceOp, HostOp, RankOp, RunData } from '../data/run';
import { both, count, duration, moment } from '../format';
import { Selection } from '../view';
import { el, table, visible } from './dom';

type Rows = [string, string | Node][];
/** Makes a link that selects something of the same run. */
export type Jump = (text: string, selection: Omit<Selection, 'run'>) => Node;

function stepName(block: Block): string {
  return block.step >= 0 ? `step ${block.step}` : 'before the first step';
}

/** What the block belongs to and what allocated it; '' where nothing tells. */
export function blockName(run: RunData, block: Block): string {
  return [block.owner, block.op].filter((id) => id >= 0).map((id) => visible(run.name(id))).join(': ');
}

export function blockTitle(run: RunData, block: Block): string {
  const category = run.meta.categories[block.category]?.title ?? 'block';
  if (run.older(block)) return `block older than the recording`;
  const of = blockName(run, block);
  return `block ${block.id}: ${category}${of ? `, ${of}` : ''}`;
}

export function blockRows(run: RunData, block: Block): Rows {
  const rows: Rows = [['size', both(block.size)]];
  if (block.requested !== block.size) rows.push(['requested', both(block.requested)]);
  rows.push(['address', run.address(block.place)]);
  if (!run.older(block)) rows.push(['made', `${moment(block.made)}, ${stepName(block)}`]);
  if (block.op >= 0) rows.push(['allocated by', visible(run.name(block.op))]);
  if (block.frame >= 0) rows.push(['at', visible(run.name(block.frame))]);
  if (block.label >= 0 && block.label !== block.op) rows.push(['within', visible(run.name(block.label))]);
  if (block.parameter >= 0) rows.push(['parameter', visible(run.meta.parameters[block.parameter] ?? '')]);
  if (block.unit >= 0) rows.push(['unit', visible(run.meta.units[block.unit] ?? '')]);
  else if (block.owner >= 0 && block.parameter < 0) rows.push(['module', visible(run.name(block.owner))]);
  rows.push(['stream', visible(run.streamName(block.stream))]);
  if (block.pool > 0) rows.push(['pool', `private ${block.pool}`]);
  rows.push(['freed', run.seen(block.freed) ? moment(block.freed) : 'not in this recording']);
  if (run.seen(block.freed) && block.back !== block.freed)
    rows.push(['reusable', run.seen(block.back) ? `${moment(block.back)} (${duration(block.back - block.freed)} later)` : 'not in this recording']);
  if (!run.older(block) && run.seen(block.back)) rows.push(['in use for', duration(block.back - block.made)]);
  return rows;
}

/** Who holds memory of a category while the program has not freed it: PyTorch's own owners. */
const HOLDERS: Record<string, string> = {
  parameters: 'the sharded parameter (model.parameters())',
  unsharded_parameters: 'FSDP: the unit stays unsharded until reshard() after its forward or backward',
  gather_buffers: 'FSDP: AllGatherResult, until the copy-out of the unit that is waited for next',
  gradients: 'autograd: the unsharded gradients, until the unit’s post-backward has copied them into the reduce-scatter input',
  reduce_buffers: 'FSDP: the reduce-scatter state, until the next unit’s reduce-scatter or the end of backward',
  sharded_gradients: 'the parameter’s .grad, until zero_grad(set_to_none=True)',
  optimizer_state: 'the optimizer (optimizer.state)',
  optimizer_temporaries: 'optimizer.step()',
  activations: 'autograd’s graph: saved for backward',
  temporaries: 'the program: a tensor made and dropped within one pass',
  inputs: 'the training loop: inputs and targets',
  workspaces: 'a library: cuBLAS keeps a workspace for each handle and stream',
  metadata: 'FSDP’s copy metadata',
  other: 'something that no annotation names',
};

/** Why the block is alive: who holds it, and after its free which event of which stream it waits for. */
export function blockWhy(run: RunData, block: Block, at: number | undefined, jump: Jump): HTMLElement {
  const key = run.meta.categories[block.category]?.key ?? 'other';
  const box = el('div', { className: 'why' });
  const say = (...parts: (string | Node)[]) => box.append(el('p', {}, ...parts));
  if (run.older(block)) say('It was there before the recording began: no event tells who asked for it.');
  const held = HOLDERS[key] ?? HOLDERS.other;
  if (!run.seen(block.freed)) say(`Held by ${held}. The program does not free it in this recording.`);
  else say(`From ${moment(run.older(block) ? run.meta.memory!.first : block.made)} to ${moment(block.freed)} held by ${held}.`);
  if (run.seen(block.freed) && block.back !== block.freed) {
    const until = run.seen(block.back) ? `until ${moment(block.back)} (${duration(block.back - block.freed)})` : 'to the recording’s end';
    const stream = block.waitsFor >= 0 ? `stream “${visible(run.streamName(block.waitsFor))}”` : 'another stream';
    const behind = block.behind >= 0 ? visible(run.name(block.behind)) : '';
    say(
      `Then pending ${until}: freed by the program, but record_stream() marked it as used on ${stream}, so the allocator waits for an event there`,
      behind ? `, behind ${behind}` : '',
      run.seen(block.opEnd) ? `, which ended at ${moment(block.opEnd)}` : '',
      '. The memory comes back at the first allocation after the GPU has passed that event.',
    );
    if (run.seen(block.opEnd) && run.seen(block.back) && block.back > block.opEnd)
      say(`${duration(block.back - block.opEnd)} of that the event had passed, and no allocation had asked.`);
  } else if (run.seen(block.freed)) {
    say('Freed and reusable at once: no other stream was recorded on it.');
  }
  if (at !== undefined && block.freed <= at && at < block.back) box.classList.add('pending');
  void jump;
  return box;
}

export function opTitle(run: RunData, op: DeviceOp): string {
  return visible(run.name(op.name)) || run.meta.words.device_kind[op.kind];
}

export function opRows(run: RunData, op: DeviceOp): Rows {
  const length = op.end - op.start;
  const rows: Rows = [
    ['kind', `${run.meta.words.device_kind[op.kind]}, ${run.meta.classes[op.opClass]?.title ?? ''}`],
    ['stream', visible(run.streamName(op.stream))],
    ['start', moment(op.start)],
    ['duration', duration(length)],
  ];
  if (op.symbol >= 0) rows.push(['kernel', visible(run.name(op.symbol))]);
  if (op.unit >= 0) rows.push(['unit', visible(run.name(op.unit))]);
  if (op.bytes > 0) {
    rows.push(['bytes', both(op.bytes)]);
    if (length > 0) rows.push(['rate', `${(op.bytes / length).toFixed(1)} GB/s`]);
  }
  if (op.collective >= 0) rows.push(['transport', run.meta.words.transport[op.transport] ?? '']);
  if (op.issue !== op.start) rows.push(['issued', `${moment(op.issue)}, ${duration(op.start - op.issue)} before it began`]);
  if (op.grid[0] > 0) rows.push(['grid × block', `${op.grid.join('·')} × ${op.block.join('·')}`]);
  if (op.correlation > 0) rows.push(['correlation', String(op.correlation)]);
  return rows;
}

/** What it waits for; names of the ops are read as they are needed. */
export async function opWaits(run: RunData, op: DeviceOp, jump: Jump): Promise<HTMLElement> {
  const list = el('ul', { className: 'waits' });
  const line = async (what: string, id: number) => {
    const other = await run.deviceOp(id);
    if (!other) return;
    const gap = op.start - other.end;
    list.append(el('li', {}, `${what} `, jump(opTitle(run, other), { kind: 'op', id }),
      `, which ended ${gap >= 0 ? `${duration(gap)} before it began` : `${duration(-gap)} after it began`}`));
  };
  for (const wait of op.waits) {
    if (wait.op >= 0) await line(`event ${wait.event} of stream “${visible(run.streamName(wait.stream))}”, recorded after`, wait.op);
    else list.append(el('li', {}, `event ${wait.event} of stream “${visible(run.streamName(wait.stream))}”, recorded before its first op`));
  }
  if (op.previous >= 0) await line('the op before it on its stream:', op.previous);
  if (op.hostOp >= 0) {
    const host = await run.hostOp(op.hostOp);
    if (host) list.append(el('li', {}, 'the host’s call ', jump(visible(run.name(host.name)), { kind: 'host', id: host.id }), ` at ${moment(host.start)}`));
  } else list.append(el('li', {}, `the host, which issued it at ${moment(op.issue)}`));
  if (op.waits.length === 0 && run.meta.two_clocks)
    list.append(el('li', { className: 'faint' }, 'A profiler trace records no event waits; a planned run does.'));
  return list;
}

export function rankRows(run: RunData, op: RankOp): Rows {
  const rows: Rows = [
    ['rank', String(op.rank)],
    ['kind', run.meta.classes[op.opClass]?.title ?? ''],
    ['start', moment(op.start)],
    ['duration', duration(op.end - op.start)],
  ];
  if (op.symbol >= 0) rows.push(['kernel', visible(run.name(op.symbol))]);
  if (op.bytes > 0) rows.push(['bytes', both(op.bytes)]);
  if (op.step >= 0) rows.push(['step', `${op.step}${op.phase >= 0 ? `, ${visible(run.name(op.phase))}` : ''}`]);
  if (op.sequence >= 0) rows.push(['in its communicator', `collective ${op.sequence} of the step, on every rank`]);
  return rows;
}

export function hostRows(run: RunData, op: HostOp): Rows {
  return [
    ['kind', run.meta.words.host_kind[op.kind]],
    ['thread', op.thread === 0 ? 'main' : op.thread === 1 ? 'autograd' : String(op.thread)],
    ['start', moment(op.start)],
    ['duration', duration(op.end - op.start)],
    ...(op.correlation > 0 ? ([['correlation', String(op.correlation)]] as Rows) : []),
  ];
}

export function manyOps(title: string, ops: number, busy: number, from: number, to: number): HTMLElement {
  return el('div', {}, el('b', {}, `${count(ops)} ops`), table([
    ['most of it', title], ['from', moment(from)], ['spans', duration(to - from)], ['busy', duration(busy)], ['', 'zoom in to see each'],
  ]));
}
