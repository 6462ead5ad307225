// What the piece "meta" tells: docs/view.md has the words. Times in ns from the origin, sizes in bytes.

import { MemoryOver } from './clock';

export interface Level {
  width: number; // of a bucket; 0: every entry
  starts: number[]; // time of each tile's first entry
}
export interface Titled {
  title: string;
  colour: string;
}
export interface Stacking {
  key: 'category' | 'unit' | 'stream' | 'module' | 'operator' | 'frame' | 'gap';
  title: string;
  statistic: Statistic; // what its components come to
  components: Titled[];
  rest?: number; // the component of blocks that no other one has
}
export interface Ink {
  paper: string;
  text: string;
  faint: string;
  grid: string;
  band: string;
  allocated: string;
  active: string;
  reserved: string;
  requested: string;
  alarm: string;
}
export type Statistic = 'allocated' | 'active' | 'reserved' | 'requested';
export const STATISTICS: Statistic[] = ['allocated', 'active', 'reserved', 'requested'];
export type Peaks = Partial<Record<Statistic, { bytes: number; time: number }>>;
export interface Step {
  index: number;
  memory: boolean;
  lanes: boolean;
  start: number;
  end: number;
  retries: number;
  device_end?: number;
  peaks?: Peaks;
}
export interface Phase {
  on: 'memory' | 'host' | 'device';
  name: string;
  step: number;
  start: number;
  end: number;
}
export interface Mark {
  kind: 'oom' | 'retry' | 'released';
  time: number;
  count: number;
  bytes: number;
}
export interface Meta {
  schema: number;
  tables: Record<string, string[]>; // the columns of each, in the order of its pieces
  tile_rows: number;
  before: number; // time of what the recording did not see begin
  never: number; // time of what it did not see end
  name: string;
  kind: string;
  headline: string;
  subtitle: string[];
  facts: string[];
  warnings: string[];
  two_clocks: boolean;
  counts_events: boolean; // times are numbers of allocator events
  clocks: { over: MemoryOver; knots: [number, number][]; note: string }[];
  view: { from: number; to: number; stacking: string; memory_over: MemoryOver };
  origin: { memory: number; lanes: number };
  results: Record<string, unknown>;
  ink: { light: Ink; dark: Ink };
  import_stats: { count: number; text: string }[];
  words: { device_kind: string[]; host_kind: string[]; collective: string[]; transport: string[] };
  categories: (Titled & { key: string })[];
  classes: Titled[];
  gap_parts: (Titled & { key: string })[]; // the components of the stacking "gap"
  steps: Step[];
  phases: Phase[];
  marks?: Mark[];
  memory?: {
    first: number;
    last: number;
    events: number;
    begin: Record<Statistic, number>;
    peaks: Peaks;
    levels: Level[];
    stackings: Stacking[];
  };
  blocks?: {
    count: number;
    classes: { shortest: number; starts: number[] }[];
    merged: Level[];
    ranges: { base: string; size: number; place: number }[];
    length: number;
  };
  lanes: { name: string; source: 'device' | 'host' | 'issues' | 'rank'; ops: number }[];
  tracks: { lane: number; levels: Level[] }[];
  used_classes: number[]; // of ops, as they appear
  lanes_span: { first: number; last: number };
  device_ops: number;
  host_ops: number;
  rank_map: boolean; // there are the pieces "rankmap" and "rankcells"
  streams: { id: number; name: string; title: string }[]; // title: of its component in the stacking by stream
  units: string[];
  parameters: string[];
}
