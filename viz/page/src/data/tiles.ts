// Decoded pieces, kept while they are used: asked for when a window needs them, dropped when others need the room.

import { decodeColumns } from './columns';
import { DataSource, inflate } from './source';

export type Columns = Float64Array[];

const MOST_VALUES = 40_000_000; // of 8 bytes each

export class Tiles {
  private readonly ready = new Map<string, Columns>();
  private readonly coming = new Map<string, Promise<Columns | undefined>>();
  private values = 0;

  constructor(
    private readonly source: DataSource,
    private readonly prefix: string,
    private readonly arrived: () => void,
    /** Names that are no pieces but made from one. */
    private readonly derived: (name: string) => { piece: string; make: (columns: Columns) => Columns } | undefined,
  ) {}

  /** The piece if it is here; otherwise it is on its way, and `arrived` will be called. */
  get(name: string): Columns | undefined {
    const columns = this.ready.get(name);
    if (!columns) void this.load(name);
    else {
      this.ready.delete(name); // the last used stand last
      this.ready.set(name, columns);
    }
    return columns;
  }

  load(name: string): Promise<Columns | undefined> {
    const here = this.ready.get(name);
    if (here) return Promise.resolve(here);
    let coming = this.coming.get(name);
    if (!coming) {
      coming = this.fetch(name);
      this.coming.set(name, coming);
    }
    return coming;
  }

  get busy(): boolean {
    return this.coming.size > 0;
  }

  private async fetch(name: string): Promise<Columns | undefined> {
    try {
      const from = this.derived(name);
      if (from) {
        const whole = await this.load(from.piece);
        if (whole) this.keep(name, from.make(whole));
        return this.ready.get(name);
      }
      const bytes = await this.source.piece(this.prefix + name);
      if (!bytes) return undefined;
      const columns = decodeColumns(await inflate(bytes));
      this.keep(name, columns);
      return columns;
    } finally {
      this.coming.delete(name);
      this.arrived();
    }
  }

  private keep(name: string, columns: Columns): void {
    const size = (of: Columns) => of.reduce((sum, column) => sum + column.length, 0);
    this.ready.set(name, columns);
    this.values += size(columns);
    for (const [old, dropped] of this.ready) {
      if (this.values <= MOST_VALUES || old === name) break;
      this.ready.delete(old);
      this.values -= size(dropped);
    }
  }
}
