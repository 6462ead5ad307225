// One run as the page sees it: which tiles a window needs, at which level of detail.

import { upperBound } from './upper_bound';
import { Clock, MemoryOver } from './clock';
import { Level, Meta, Stacking } from './meta';
import { linesFromEvents, stackFromEvents } from './events';
import { LinkSeries, seriesOf } from './links';
import { RankMap, RankMapText } from './rank_map';
import { DataSource, json } from './source';
import { Table, TableName, Tables } from './tables';
import { Derived, Tiles } from './tiles';
import { TimeReport, Wait, waitsOf } from './waits';

const SCHEMA = 2;

export interface Block {
  id: number;
  place: number;
  size: number;
  requested: number;
  stream: number;
  pool: number;
  category: number;
  unit: number;
  parameter: number;
  label: number;
  owner: number;
  op: number;
  frame: number;
  step: number;
  made: number;
  freed: number;
  back: number;
  waitsFor: number;
  behind: number;
  opEnd: number;
}

export interface DeviceOp {
  id: number;
  kind: number;
  stream: number;
  name: number;
  symbol: number; // its full name, where `name` is a readable one; -1: none
  opClass: number;
  issue: number;
  start: number;
  end: number;
  bytes: number;
  unit: number;
  collective: number;
  transport: number;
  correlation: number;
  hostOp: number;
  previous: number;
  track: number;
  grid: number[];
  block: number[];
  waits: { event: number; stream: number; op: number }[];
}

export interface HostOp {
  id: number;
  kind: number;
  thread: number;
  name: number;
  start: number;
  end: number;
  correlation: number;
  op: number;
  track: number;
}

/** An op of a rank that is not the first. */
export interface RankOp {
  id: number;
  rank: number;
  name: number;
  symbol: number;
  opClass: number;
  start: number;
  end: number;
  bytes: number;
  step: number;
  phase: number;
  sequence: number;
}

/** Tiles [first, last] that hold entries of [from, to] and the entry before `from`. */
function tileRange(starts: number[], from: number, to: number): [number, number] {
  return [Math.max(upperBound(starts, from) - 1, 0), upperBound(starts, to) - 1];
}

export class RunData {
  names: string[] = [];
  /** What memory is laid over, and how. */
  over: MemoryOver;
  clock: Clock;
  /** Why the compute stream waits, where it is known: by start. */
  time?: TimeReport;
  waits: Wait[] = [];
  waitStarts: number[] = [];
  /** What the GPU's links carry, where it is known. */
  links: LinkSeries[] = [];
  /** What every rank does, where there are several: once it is here. */
  ranks?: RankMap;
  readonly tiles: Tiles;
  private ranksComing?: Promise<void>;
  private namesComing?: Promise<void>;

  private constructor(
    readonly prefix: string,
    readonly label: string,
    readonly meta: Meta,
    private readonly source: DataSource,
    arrived: () => void,
  ) {
    this.over = meta.view.memory_over;
    this.clock = this.clockOver(this.over)!;
    this.tiles = new Tiles(source, prefix, new Tables(meta.tables), arrived, (name) => this.derived(name));
  }

  /** Of the last level there are only events: what is shown of it is made from them. */
  private derived(name: string): Derived | undefined {
    const [room, what, level, tile] = name.split('/');
    if (room !== 'memory' || what === 'events' || Number(level) !== this.meta.memory!.levels.length - 1) return undefined;
    const gap = this.meta.gap_parts.map((part) => part.key);
    return {
      piece: `memory/events/${tile}`,
      make: what === 'lines' ? linesFromEvents : (events) => stackFromEvents(events, what as Stacking['key'], gap),
    };
  }

  setTime(report: TimeReport): void {
    this.time = report;
    this.waits = waitsOf(report, this.meta.origin.lanes);
    this.waitStarts = this.waits.map((wait) => wait.from);
    this.links = seriesOf(report.links, this.meta.origin.lanes);
  }

  private clockOver(over: MemoryOver): Clock | undefined {
    const of = this.meta.clocks.find((clock) => clock.over === over);
    return of && new Clock(of.knots);
  }
  /** Lays memory over the host or the GPU, where that is known. */
  layOver(over: MemoryOver): void {
    const clock = this.clockOver(over);
    if (clock) [this.over, this.clock] = [over, clock];
  }
  /** What memory is laid over, as one line; empty where it is as recorded. */
  get clockNote(): string {
    return this.meta.clocks.find((clock) => clock.over === this.over)?.note ?? '';
  }

  /**
   * To where memory is known: behind the last event it stays as it was, as long as anything runs. Nothing is known
   * behind running out of memory.
   */
  get memoryEnd(): number {
    const { last } = this.meta.memory!;
    const ends = (this.meta.marks ?? []).some((mark) => mark.kind === 'oom');
    return ends ? last : Math.max(last, this.clock.toMemory(this.meta.lanes_span.last));
  }

  static async open(source: DataSource, prefix: string, label: string, arrived: () => void): Promise<RunData> {
    const meta = await json<Meta>(source, `${prefix}meta`);
    if (!meta) throw new Error(`this page has no run "${prefix}"`);
    if (meta.schema !== SCHEMA) throw new Error(`data of schema ${meta.schema}; this page reads ${SCHEMA}`);
    return new RunData(prefix, label, meta, source, arrived);
  }

  loadNames(): Promise<void> {
    this.namesComing ??= json<string[]>(this.source, `${this.prefix}names`).then((names) => {
      this.names = names ?? [];
    });
    return this.namesComing;
  }

  /** When `ranks` is here, where there are several. */
  get ranksHere(): Promise<void> {
    return (this.ranksComing ??= this.loadRanks());
  }
  private async loadRanks(): Promise<void> {
    if (!this.meta.rank_map) return;
    const [text, cells] = await Promise.all([json<RankMapText>(this.source, `${this.prefix}rankmap`), this.tiles.load('rankcells', 'rankcells')]);
    if (text && cells) this.ranks = new RankMap(text, cells);
  }

  get usedClasses(): number[] {
    return this.meta.used_classes;
  }
  name(id: number): string {
    return id >= 0 ? (this.names[id] ?? '') : '';
  }
  streamName(id: number): string {
    if (id < 0) return 'unknown stream';
    return this.meta.streams.find((stream) => stream.id === id)?.name ?? `stream ${id}`;
  }
  stacking(key: string): Stacking | undefined {
    return this.meta.memory?.stackings.find((stacking) => stacking.key === key);
  }

  /**
   * The tiles of `piece` that a window needs, at the coarsest level with buckets of at most `most` ns. While some are
   * on their way: those of the finest coarser level that is here.
   */
  window<T extends TableName>(table: T, piece: string, levels: Level[], from: number, to: number,
                              most: number): { level: number; tiles: Table<T>[] } {
    let level = levels.findIndex((of) => of.width <= most);
    if (level < 0) level = levels.length - 1;
    for (; level >= 0; level--) {
      const [first, last] = tileRange(levels[level].starts, from, to);
      const tiles: Table<T>[] = [];
      let whole = true;
      for (let i = first; i <= last; i++) {
        const columns = this.tiles.get(table, `${piece}/${level}/${i}`);
        if (columns) tiles.push(columns);
        else whole = false;
      }
      if (whole) return { level, tiles };
    }
    return { level: 0, tiles: [] };
  }

  /** As window(), but waits for what it needs. */
  async read<T extends TableName>(table: T, piece: string, levels: Level[], level: number, from: number,
                                  to: number): Promise<Table<T>[]> {
    const [first, last] = tileRange(levels[level].starts, from, to);
    const tiles: Promise<Table<T> | undefined>[] = [];
    for (let i = first; i <= last; i++) tiles.push(this.tiles.load(table, `${piece}/${level}/${i}`));
    return (await Promise.all(tiles)).filter((tile) => tile !== undefined);
  }

  /** Which tiles of a class of blocks can hold one that is alive in [from, to]. */
  blockTiles(blockClass: number, from: number, to: number): string[] {
    const classes = this.meta.blocks!.classes;
    const longest = blockClass > 0 ? classes[blockClass - 1].shortest : Infinity;
    const { starts } = classes[blockClass];
    if (starts.length === 0) return [];
    const [first, last] = tileRange(starts, from - longest, to);
    const names: string[] = [];
    for (let i = first; i <= last; i++) names.push(`blocks/${blockClass}/${i}`);
    return names;
  }

  /** Every block whose memory is in use at a moment. */
  async blocksAt(time: number): Promise<Block[]> {
    const found: Block[] = [];
    const classes = this.meta.blocks?.classes ?? [];
    for (let c = 0; c < classes.length; c++)
      for (const name of this.blockTiles(c, time, time)) {
        const tile = await this.tiles.load('blocks', name);
        if (!tile) continue;
        for (let i = 0; i < tile.block.length; i++)
          if (tile.made[i] <= time && tile.back[i] > time) found.push(blockOf(tile, i));
      }
    return found;
  }

  async block(id: number): Promise<Block | undefined> {
    const table = await this.tiles.load('find/blocks', 'find/blocks');
    if (!table) return undefined;
    const row = upperBound(table.block, id) - 1;
    if (row < 0 || table.block[row] !== id) return undefined;
    const blockClass = table.class[row];
    const { starts } = this.meta.blocks!.classes[blockClass];
    const made = table.made[row];
    // Blocks of one tile may share a time with the tile before.
    for (let i = upperBound(starts, made) - 1; i >= 0; i--) {
      const tile = await this.tiles.load('blocks', `blocks/${blockClass}/${i}`);
      const at = tile ? tile.block.indexOf(id) : -1;
      if (tile && at >= 0) return blockOf(tile, at);
      if (starts[i] < made) break;
    }
    return undefined;
  }

  /** An address on the axis of all segments, as text. */
  address(place: number): string {
    for (const range of this.meta.blocks?.ranges ?? [])
      if (place >= range.place && place < range.place + range.size)
        return `0x${(BigInt(`0x${range.base}`) + BigInt(place - range.place)).toString(16)}`;
    return '';
  }

  /** Whether a block was there before the recording began. */
  older(block: Block): boolean {
    return block.made === this.meta.before;
  }
  /** Whether a time of a block is one that the recording saw. */
  seen(time: number): boolean {
    return time < this.meta.never;
  }

  /** The op if its tile is here; otherwise it is on its way. */
  deviceOpNow(id: number): DeviceOp | undefined {
    const tile = this.tiles.get('ops', `ops/${this.tileOf(id)}`);
    return tile && deviceOpOf(tile, id, this.rowOf(id));
  }
  async deviceOp(id: number): Promise<DeviceOp | undefined> {
    const tile = await this.tiles.load('ops', `ops/${this.tileOf(id)}`);
    return tile && deviceOpOf(tile, id, this.rowOf(id));
  }
  rankOpNow(id: number): RankOp | undefined {
    const tile = this.tiles.get('rankops', `rankops/${this.tileOf(id)}`);
    return tile && rankOpOf(tile, id, this.rowOf(id));
  }
  async rankOp(id: number): Promise<RankOp | undefined> {
    const tile = await this.tiles.load('rankops', `rankops/${this.tileOf(id)}`);
    return tile && rankOpOf(tile, id, this.rowOf(id));
  }
  hostOpNow(id: number): HostOp | undefined {
    const tile = this.tiles.get('hostops', `hostops/${this.tileOf(id)}`);
    return tile && hostOpOf(tile, id, this.rowOf(id));
  }
  async hostOp(id: number): Promise<HostOp | undefined> {
    const tile = await this.tiles.load('hostops', `hostops/${this.tileOf(id)}`);
    return tile && hostOpOf(tile, id, this.rowOf(id));
  }
  private tileOf(id: number): number {
    return Math.floor(id / this.meta.tile_rows);
  }
  private rowOf(id: number): number {
    return id % this.meta.tile_rows;
  }
}

export function blockOf(tile: Table<'blocks'>, row: number): Block {
  return {
    id: tile.block[row], place: tile.place[row], size: tile.size[row], requested: tile.requested[row],
    stream: tile.stream[row], pool: tile.pool[row], category: tile.category[row], unit: tile.unit[row],
    parameter: tile.parameter[row], label: tile.label[row], owner: tile.owner[row], op: tile.operator[row],
    frame: tile.frame[row], step: tile.step[row], made: tile.made[row],
    freed: tile.freed[row], back: tile.back[row], waitsFor: tile.waits_for_stream[row],
    behind: tile.waits_behind[row], opEnd: tile.waits_behind_end[row],
  };
}

function deviceOpOf(tile: Table<'ops'>, id: number, row: number): DeviceOp | undefined {
  if (row >= tile.kind.length) return undefined;
  const waits: DeviceOp['waits'] = [];
  for (let i = row > 0 ? tile.waits_end[row - 1] : 0; i < tile.waits_end[row]; i++)
    waits.push({ event: tile.wait_event[i], stream: tile.wait_stream[i], op: tile.wait_op[i] });
  return {
    id, kind: tile.kind[row], stream: tile.stream[row], name: tile.name[row], symbol: tile.symbol[row], opClass: tile.class[row],
    issue: tile.issue[row], start: tile.start[row], end: tile.end[row], bytes: tile.bytes[row], unit: tile.unit[row],
    collective: tile.collective[row], transport: tile.transport[row], correlation: tile.correlation[row],
    hostOp: tile.host_op[row], previous: tile.previous_op[row], track: tile.track[row],
    grid: [tile.grid_x[row], tile.grid_y[row], tile.grid_z[row]],
    block: [tile.block_x[row], tile.block_y[row], tile.block_z[row]], waits,
  };
}

function rankOpOf(tile: Table<'rankops'>, id: number, row: number): RankOp | undefined {
  if (row >= tile.rank.length) return undefined;
  return {
    id, rank: tile.rank[row], name: tile.name[row], symbol: tile.symbol[row], opClass: tile.class[row], start: tile.start[row],
    end: tile.end[row], bytes: tile.bytes[row], step: tile.step[row], phase: tile.phase[row], sequence: tile.sequence[row],
  };
}

function hostOpOf(tile: Table<'hostops'>, id: number, row: number): HostOp | undefined {
  if (row >= tile.kind.length) return undefined;
  return {
    id, kind: tile.kind[row], thread: tile.thread[row], name: tile.name[row], start: tile.start[row],
    end: tile.end[row], correlation: tile.correlation[row], op: tile.op[row], track: tile.track[row],
  };
}
