// The last level of memory: every event. One piece holds them; statistics and stacks are made from it.

import { STATISTICS, Stacking, Statistic } from './meta';
import { Table } from './tables';

type Events = Table<'memory/events'>;

const add = (a: Float64Array, b: Float64Array, sign = 1) => a.map((value, i) => value + sign * b[i]);

/** The four statistics after each event: the highest, the lowest and the last of a bucket at once. */
export function linesFromEvents(events: Events): Table<'memory/lines'> {
  const { time, allocated, reserved } = events;
  const active = add(allocated, events.pending);
  const values: Record<Statistic, Float64Array> = { allocated, active, reserved, requested: add(active, events.rounding_active, -1) };
  const columns = STATISTICS.flatMap((name) => (['most', 'least', 'last'] as const).map((which) => [`${name}_${which}`, values[name]]));
  return { time, ...Object.fromEntries(columns) } as Table<'memory/lines'>;
}

/** By key of the gap's parts; undefined where the events do not have them. */
function gapFromEvents(events: Events): Record<string, Float64Array> | undefined {
  const { allocated, pending, reserved, rounding, pending_left, stream_left, requested_left } = events;
  const { hard_fragmentation: hard, soft_fragmentation: soft, private_pools: pools } = events;
  if (!rounding || !hard || !soft || !pools || !pending_left || !stream_left || !requested_left) return undefined;
  return {
    requested: allocated.map((value, i) => value - rounding[i] + requested_left[i]),
    rounding,
    pending_free: add(pending, pending_left),
    hard_fragmentation: hard,
    soft_fragmentation: soft,
    stream_fragmentation: reserved.map((value, i) => value - allocated[i] - pending[i] - hard[i] - soft[i] - pools[i] + stream_left[i]),
    private_pools: pools,
  };
}

/** The components after each event. */
export function stackFromEvents(events: Events, key: Stacking['key'], gapKeys: string[]): Table<'memory/stack'> {
  const { time, allocated } = events;
  if (key === 'gap') {
    const parts = gapFromEvents(events) ?? {};
    const columns = gapKeys.map((part) => {
      if (!parts[part]) throw new Error(`this page cannot make the part "${part}" of reserved memory`);
      return parts[part];
    });
    return { time, highest: columns, last: columns };
  }
  const component = events[key];
  const now = events[`${key}_before`].slice();
  const columns = Array.from(now, () => new Float64Array(time.length));
  // What is allocated before the first event is what its components come to.
  let before = now.reduce((sum, value) => sum + value, 0);
  for (let i = 0; i < time.length; i++) {
    if (component[i] >= 0) now[component[i]] += allocated[i] - before;
    before = allocated[i];
    for (let c = 0; c < now.length; c++) columns[c][i] = now[c];
  }
  return { time, highest: columns, last: columns };
}
