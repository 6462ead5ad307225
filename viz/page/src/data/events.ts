// The last level of memory: every event. One piece holds them; statistics and stacks are made from it.

import { Columns } from './tiles';

export type EventView = 'lines' | 'category' | 'unit' | 'stream' | 'gap';

/** Of "lines": time and the four statistics; of a stacking: time and its components, after each event. */
export function fromEvents(events: Columns, view: EventView): Columns {
  const [time, allocated, pending, reserved, roundingActive] = events;
  const add = (a: Float64Array, b: Float64Array, sign = 1) => a.map((value, i) => value + sign * b[i]);
  if (view === 'lines') {
    const active = add(allocated, pending);
    return [time, allocated, active, reserved, add(active, roundingActive, -1)];
  }
  if (view === 'gap') {
    const [rounding, hard, soft, pool, pendingLeft, streamLeft, requestedLeft] = events.slice(11);
    const stream = reserved.map((value, i) => value - allocated[i] - pending[i] - hard[i] - soft[i] - pool[i] + streamLeft[i]);
    const requested = allocated.map((value, i) => value - rounding[i] + requestedLeft[i]);
    return [time, requested, rounding, add(pending, pendingLeft), hard, soft, stream, pool];
  }
  const which = { category: 0, unit: 1, stream: 2 }[view];
  const component = events[5 + which];
  const now = events[8 + which].slice();
  const out: Columns = Array.from(now, () => new Float64Array(time.length));
  // What is allocated before the first event is what its components come to.
  let before = now.reduce((sum, value) => sum + value, 0);
  for (let i = 0; i < time.length; i++) {
    if (component[i] >= 0) now[component[i]] += allocated[i] - before;
    before = allocated[i];
    for (let c = 0; c < now.length; c++) out[c][i] = now[c];
  }
  return [time, ...out];
}
