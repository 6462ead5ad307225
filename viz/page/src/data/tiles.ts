// Decoded pieces, kept while they are used: asked for when a window needs them, dropped when others need the room.

import { decodeColumns } from './column_codec';
import { DataSource, inflate } from './source';
import { Table, TableName, Tables, valuesOf } from './tables';

const MOST_VALUES = 40_000_000; // of 8 bytes each

/** A name that is no piece but is made from one of table "memory/events". */
export interface Derived {
  piece: string;
  make: (events: Table<'memory/events'>) => Table<'memory/lines'> | Table<'memory/stack'>;
}

export class Tiles {
  private readonly ready = new Map<string, object>();
  private readonly coming = new Map<string, Promise<object | undefined>>();
  private values = 0;

  constructor(
    private readonly source: DataSource,
    private readonly prefix: string,
    private readonly tables: Tables,
    private readonly arrived: () => void,
    private readonly derived: (name: string) => Derived | undefined,
  ) {}

  /** The piece if it is here; otherwise it is on its way, and `arrived` will be called. */
  get<T extends TableName>(table: T, name: string): Table<T> | undefined {
    const columns = this.ready.get(name);
    if (!columns) void this.load(table, name);
    else {
      this.ready.delete(name); // the last used stand last
      this.ready.set(name, columns);
    }
    return columns as Table<T> | undefined;
  }

  load<T extends TableName>(table: T, name: string): Promise<Table<T> | undefined> {
    const here = this.ready.get(name);
    if (here) return Promise.resolve(here as Table<T>);
    let coming = this.coming.get(name);
    if (!coming) {
      coming = this.fetch(table, name);
      this.coming.set(name, coming);
    }
    return coming as Promise<Table<T> | undefined>;
  }

  get busy(): boolean {
    return this.coming.size > 0;
  }

  private async fetch(table: TableName, name: string): Promise<object | undefined> {
    try {
      const from = this.derived(name);
      if (from) {
        const events = await this.load('memory/events', from.piece);
        if (events) this.keep(name, from.make(events));
        return this.ready.get(name);
      }
      const bytes = await this.source.piece(this.prefix + name);
      if (!bytes) return undefined;
      const columns = this.tables.named(table, decodeColumns(await inflate(bytes)));
      this.keep(name, columns);
      return columns;
    } finally {
      this.coming.delete(name);
      this.arrived();
    }
  }

  private keep(name: string, columns: object): void {
    this.ready.set(name, columns);
    this.values += valuesOf(columns);
    for (const [old, dropped] of this.ready) {
      if (this.values <= MOST_VALUES || old === name) break;
      this.ready.delete(old);
      this.values -= valuesOf(dropped);
    }
  }
}
