// One run as the page sees it: which tiles a window needs, at which level of detail.

import { upperBound } from './columns';
import { Level, Meta, Stacking, TILE_ROWS } from './meta';
import { EventView, fromEvents } from './events';
import { DataSource, json } from './source';
import { Columns, Tiles } from './tiles';

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
  opClass: number;
  issue: number;
  start: number;
  end: number;
  bytes: number;
  unit: number;
  collective: number;
  transport: number;
  communicator: number;
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

/** Tiles [first, last] that hold entries of [from, to] and the entry before `from`. */
function tileRange(starts: number[], from: number, to: number): [number, number] {
  return [Math.max(upperBound(starts, from) - 1, 0), upperBound(starts, to) - 1];
}

export class RunData {
  names: string[] = [];
  readonly tiles: Tiles;
  private namesComing?: Promise<void>;

  private constructor(
    readonly prefix: string,
    readonly label: string,
    readonly meta: Meta,
    private readonly source: DataSource,
    arrived: () => void,
  ) {
    const every = (meta.memory?.levels.length ?? 0) - 1;
    this.tiles = new Tiles(source, prefix, arrived, (name) => {
      const [room, what, level, tile] = name.split('/');
      if (room !== 'memory' || what === 'events' || Number(level) !== every) return undefined;
      return { piece: `memory/events/${tile}`, make: (events) => fromEvents(events, what as EventView) };
    });
  }

  static async open(source: DataSource, prefix: string, label: string, arrived: () => void): Promise<RunData> {
    const meta = await json<Meta>(source, `${prefix}meta`);
    if (!meta) throw new Error(`this page has no run "${prefix}"`);
    if (meta.schema !== 1) throw new Error(`data of schema ${meta.schema}; this page reads 1`);
    return new RunData(prefix, label, meta, source, arrived);
  }

  loadNames(): Promise<void> {
    this.namesComing ??= json<string[]>(this.source, `${this.prefix}names`).then((names) => {
      this.names = names ?? [];
    });
    return this.namesComing;
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
  window(piece: string, levels: Level[], from: number, to: number, most: number): { level: number; tiles: Columns[] } {
    let level = levels.findIndex((of) => of.width <= most);
    if (level < 0) level = levels.length - 1;
    for (; level >= 0; level--) {
      const [first, last] = tileRange(levels[level].starts, from, to);
      const tiles: Columns[] = [];
      let whole = true;
      for (let i = first; i <= last; i++) {
        const columns = this.tiles.get(`${piece}/${level}/${i}`);
        if (columns) tiles.push(columns);
        else whole = false;
      }
      if (whole) return { level, tiles };
    }
    return { level: 0, tiles: [] };
  }

  /** As window(), but waits for what it needs. */
  async read(piece: string, levels: Level[], level: number, from: number, to: number): Promise<Columns[]> {
    const [first, last] = tileRange(levels[level].starts, from, to);
    const tiles: Promise<Columns | undefined>[] = [];
    for (let i = first; i <= last; i++) tiles.push(this.tiles.load(`${piece}/${level}/${i}`));
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
        const tile = await this.tiles.load(name);
        if (!tile) continue;
        for (let i = 0; i < tile[0].length; i++)
          if (tile[11][i] <= time && tile[13][i] > time) found.push(blockOf(tile, i));
      }
    return found;
  }

  async block(id: number): Promise<Block | undefined> {
    const table = await this.tiles.load('find/blocks');
    if (!table) return undefined;
    const row = upperBound(table[0], id) - 1;
    if (row < 0 || table[0][row] !== id) return undefined;
    const blockClass = table[5][row];
    const { starts } = this.meta.blocks!.classes[blockClass];
    const made = table[4][row];
    // Blocks of one tile may share a time with the tile before.
    for (let i = upperBound(starts, made) - 1; i >= 0; i--) {
      const tile = await this.tiles.load(`blocks/${blockClass}/${i}`);
      const at = tile ? tile[0].indexOf(id) : -1;
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

  /** The op if its tile is here; otherwise it is on its way. */
  deviceOpNow(id: number): DeviceOp | undefined {
    const tile = this.tiles.get(`ops/${Math.floor(id / TILE_ROWS)}`);
    return tile ? deviceOpOf(tile, id) : undefined;
  }
  async deviceOp(id: number): Promise<DeviceOp | undefined> {
    const tile = await this.tiles.load(`ops/${Math.floor(id / TILE_ROWS)}`);
    return tile ? deviceOpOf(tile, id) : undefined;
  }
  hostOpNow(id: number): HostOp | undefined {
    const tile = this.tiles.get(`hostops/${Math.floor(id / TILE_ROWS)}`);
    return tile ? hostOpOf(tile, id) : undefined;
  }
  async hostOp(id: number): Promise<HostOp | undefined> {
    const tile = await this.tiles.load(`hostops/${Math.floor(id / TILE_ROWS)}`);
    return tile ? hostOpOf(tile, id) : undefined;
  }
}

export function blockOf(tile: Columns, row: number): Block {
  const [id, place, size, requested, stream, pool, category, unit, parameter, label, step, made, freed, back, ...wait] =
    tile.map((column) => column[row]);
  return {
    id, place, size, requested, stream, pool, category, unit, parameter, label, step, made, freed, back,
    waitsFor: wait[0], behind: wait[1], opEnd: wait[2],
  };
}

function deviceOpOf(tile: Columns, id: number): DeviceOp | undefined {
  const row = id % TILE_ROWS;
  if (row >= tile[0].length) return undefined;
  const of = (column: number) => tile[column][row];
  const waits: DeviceOp['waits'] = [];
  for (let i = row > 0 ? tile[22][row - 1] : 0; i < tile[22][row]; i++)
    waits.push({ event: tile[23][i], stream: tile[24][i], op: tile[25][i] });
  return {
    id, kind: of(0), stream: of(1), name: of(2), opClass: of(3), issue: of(4), start: of(5), end: of(6), bytes: of(7),
    unit: of(8), collective: of(9), transport: of(10), communicator: of(11), correlation: of(12), hostOp: of(13),
    previous: of(14), track: of(15), grid: [of(16), of(17), of(18)], block: [of(19), of(20), of(21)], waits,
  };
}

function hostOpOf(tile: Columns, id: number): HostOp | undefined {
  const row = id % TILE_ROWS;
  if (row >= tile[0].length) return undefined;
  const of = (column: number) => tile[column][row];
  return {
    id, kind: of(0), thread: of(1), name: of(2), start: of(3), end: of(4), correlation: of(5), op: of(6), track: of(7),
  };
}
