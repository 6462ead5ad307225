// What every rank does over time, as the pieces "rankmap" and "rankcells" have it. Times in ns from the origin.

import { Table } from './tables';
import { upperBound } from './upper_bound';

/** One rank, or equal ranks of a plan. */
export interface RankRow {
  rank: number; // whose ops these are
  name: string;
  ranks: number; // how many it stands for
}
export interface PathVisit {
  rank: number;
  from: number;
  to: number;
  text: string;
}
/** The piece "rankmap". */
export interface RankMapText {
  world: number;
  missing: string; // which ranks are not there, and what to do
  states: { title: string; light: string; dark: string }[];
  rows: RankRow[];
  paths: { step: number; visits: PathVisit[] }[];
}

export interface RankCell {
  from: number;
  to: number;
  state: number; // of RankMapText.states
  forRank: number; // whom it waits for; -1: it does not
}

export class RankMap {
  private readonly starts: number[]; // each row's first cell, and the end

  constructor(
    readonly text: RankMapText,
    private readonly cells: Table<'rankcells'>,
  ) {
    this.starts = text.rows.map((_, row) => upperBound(cells.row, row - 1));
    this.starts.push(cells.row.length);
  }

  get rows(): RankRow[] {
    return this.text.rows;
  }
  rowOf(rank: number): number {
    return this.rows.findIndex((row) => row.rank === rank);
  }

  /** A row's cells that reach into a window. */
  each(row: number, from: number, to: number, visit: (cell: RankCell) => void): void {
    const { start, length, state, for_rank: forRank } = this.cells;
    let low = this.starts[row], high = this.starts[row + 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (start[middle] + length[middle] <= from) low = middle + 1;
      else high = middle;
    }
    for (let i = low; i < this.starts[row + 1] && start[i] < to; i++)
      visit({ from: start[i], to: start[i] + length[i], state: state[i], forRank: forRank[i] });
  }
}
