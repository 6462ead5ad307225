// The tables that pieces hold, and their columns by name. Where each column stands is told by meta.tables
// (viz/pack/tables.hpp); nothing here knows a column's number.

/**
 * What this page reads. "busy[]" is a list: one column for each class or component. "busy?" may be missing in a piece.
 * Tables may have columns that are not named here.
 */
const READ = {
  'memory/lines': [
    'time', 'allocated_most', 'allocated_least', 'allocated_last', 'active_most', 'active_least', 'active_last',
    'reserved_most', 'reserved_least', 'reserved_last', 'requested_most', 'requested_least', 'requested_last',
  ],
  'memory/stack': ['time', 'highest[]', 'last[]'],
  'memory/events': [
    'time', 'allocated', 'pending', 'reserved', 'rounding_active', 'category', 'unit', 'stream', 'module',
    'operator', 'frame', 'category_before', 'unit_before', 'stream_before', 'module_before', 'operator_before',
    'frame_before', 'rounding?', 'hard_fragmentation?', 'soft_fragmentation?', 'private_pools?',
    'pending_left?', 'stream_left?', 'requested_left?',
  ],
  track: ['start', 'length', 'class', 'first_op', 'count?', 'busy?'],
  totals: ['ops[]', 'busy[]'],
  blocks: [
    'block', 'place', 'size', 'requested', 'stream', 'pool', 'category', 'unit', 'parameter', 'label', 'owner',
    'operator', 'frame', 'by_module', 'by_operator', 'by_frame', 'step', 'made', 'freed', 'back', 'waits_for_stream', 'waits_behind', 'waits_behind_end',
  ],
  merged: ['from', 'length', 'place', 'extent', 'category'],
  segments: ['place', 'size', 'from', 'to'],
  ops: [
    'kind', 'stream', 'name', 'symbol', 'class', 'issue', 'start', 'end', 'bytes', 'unit', 'collective', 'transport',
    'correlation', 'host_op', 'previous_op', 'track', 'grid_x', 'grid_y', 'grid_z', 'block_x', 'block_y', 'block_z',
    'waits_end', 'wait_event', 'wait_stream', 'wait_op',
  ],
  rankops: ['rank', 'name', 'symbol', 'class', 'start', 'end', 'bytes', 'step', 'phase', 'sequence'],
  rankcells: ['row', 'start', 'length', 'state', 'for_rank'],
  hostops: ['kind', 'thread', 'name', 'start', 'end', 'correlation', 'op', 'track'],
  'find/ops': ['name', 'symbol', 'unit', 'start'],
  'find/hostops': ['name', 'start'],
  'find/blocks': ['block', 'label', 'owner', 'operator', 'frame', 'category', 'unit', 'made', 'class', 'size'],
} as const;

export type TableName = keyof typeof READ;
type Marked<T extends TableName> = (typeof READ)[T][number];
type ListName<M> = M extends `${infer Name}[]` ? Name : never;
type OptionalName<M> = M extends `${infer Name}?` ? Name : never;
type PlainName<M> = M extends `${string}[]` | `${string}?` ? never : M & string;

/** One piece's columns by name. */
export type Table<T extends TableName> = { readonly [N in PlainName<Marked<T>>]: Float64Array } & {
  readonly [N in ListName<Marked<T>>]: Float64Array[];
} & { readonly [N in OptionalName<Marked<T>>]?: Float64Array };

interface Column {
  name: string;
  list: boolean;
  optional: boolean;
}

const columnOf = (marked: string): Column => ({
  name: marked.replace(/\[\]$|\?$/, ''), list: marked.endsWith('[]'), optional: marked.endsWith('?'),
});

/** The tables of one run's data. */
export class Tables {
  private readonly columns = new Map<string, Column[]>();

  /** `told` is meta.tables. Throws where the data lacks a table or a column that this page reads. */
  constructor(told: Record<string, string[]>) {
    for (const [table, names] of Object.entries(READ)) {
      const there = told[table];
      if (!there) throw new Error(`the data has no table "${table}"`);
      for (const name of names)
        if (!there.includes(name)) throw new Error(`the data's table "${table}" has no column "${name}"`);
      this.columns.set(table, there.map(columnOf));
    }
  }

  /** Names the columns of a piece. Throws where there are fewer or more than its table has. */
  named<T extends TableName>(table: T, values: Float64Array[]): Table<T> {
    const columns = this.columns.get(table)!;
    const lists = columns.filter((column) => column.list).length;
    const single = columns.filter((column) => !column.list && !column.optional).length;
    // Of one piece all lists are of one length, or all optional columns are there or none is.
    const length = lists ? (values.length - single) / lists : 0;
    const optional = !lists && values.length > single;
    const out: Record<string, Float64Array | Float64Array[]> = {};
    let at = 0;
    for (const column of columns) {
      if (column.list) out[column.name] = values.slice(at, (at += length));
      else if (!column.optional || optional) out[column.name] = values[at++];
    }
    if (at !== values.length || !Number.isInteger(length) || length < 0)
      throw new Error(`a piece of table "${table}" has ${values.length} columns`);
    return out as Table<T>;
  }
}

/** Numbers that a piece keeps in memory. */
export function valuesOf(table: object): number {
  const columns = new Set<Float64Array>((Object.values(table) as (Float64Array | Float64Array[])[]).flat());
  return [...columns].reduce((sum, column) => sum + column.length, 0);
}
