// Moves the window of time and addresses, within what the runs hold.

import { RunData } from './data/run';
import { Box } from './draw/frame';
import { ROW } from './draw/lanes';
import { Page } from './page';
import { View } from './view';

const LEAST_WINDOW = 50; // ns
const LEAST_ADDRESSES = 4096; // bytes

/** Everything that the runs hold: times, and the end of the address axis. */
export interface Whole {
  from: number;
  to: number;
  mapTo: number;
}

export function wholeOf(runs: RunData[]): Whole {
  const spans = runs.flatMap((run) => [
    ...(run.meta.memory ? [[run.clock.toAxis(run.meta.memory.first), run.clock.toAxis(run.memoryEnd)]] : []),
    ...(run.meta.tracks.length ? [[run.meta.lanes_span.first, run.meta.lanes_span.last]] : []),
  ]);
  return {
    from: Math.min(...spans.map(([from]) => from)), to: Math.max(...spans.map(([, to]) => to)) + 1,
    mapTo: Math.max(1, ...runs.map((run) => run.meta.blocks?.length ?? 1)),
  };
}

/** The window that the page opens with. */
export function firstWindow(runs: RunData[]): [number, number] {
  return [Math.min(...runs.map((run) => run.meta.view.from)), Math.max(...runs.map((run) => run.meta.view.to))];
}

export class Navigation {
  constructor(
    private readonly page: Page,
    private readonly whole: Whole,
  ) {}

  private get view(): View {
    return this.page.scene.view;
  }

  setWindow(from: number, to: number): void {
    const span = this.whole.to - this.whole.from;
    const length = Math.min(Math.max(to - from, LEAST_WINDOW), span * 1.2);
    if (to - from !== length) {
      const middle = (from + to) / 2;
      [from, to] = [middle - length / 2, middle + length / 2];
    }
    const least = this.whole.from - span * 0.1, most = this.whole.to + span * 0.1;
    if (from < least) [from, to] = [least, least + length];
    if (to > most) [from, to] = [most - length, most];
    this.view.from = from;
    this.view.to = to;
    this.page.changed();
  }

  zoom(factor: number, at: number): void {
    const { from, to } = this.view;
    this.setWindow(at - (at - from) * factor, at + (to - at) * factor);
  }

  pan(share: number): void {
    const move = (this.view.to - this.view.from) * share;
    this.setWindow(this.view.from + move, this.view.to + move);
  }

  fit(all: boolean): void {
    this.view.mapFrom = 0;
    this.view.mapTo = this.whole.mapTo;
    if (all) this.setWindow(this.whole.from, this.whole.to);
    else this.setWindow(...firstWindow(this.page.scene.runs));
  }

  zoomMap(factor: number, box: Box, y: number): void {
    const { mapFrom, mapTo } = this.view;
    const at = mapFrom + ((box.y + box.height - y) / box.height) * (mapTo - mapFrom);
    const length = Math.min(Math.max((mapTo - mapFrom) * factor, LEAST_ADDRESSES), this.whole.mapTo);
    const share = (at - mapFrom) / (mapTo - mapFrom);
    this.moveMap(at - share * length, length);
  }

  moveMap(from: number, length: number): void {
    this.view.mapFrom = Math.min(Math.max(from, 0), this.whole.mapTo - length);
    this.view.mapTo = this.view.mapFrom + length;
    this.page.changed();
  }

  scrollLanes(by: number): void {
    const { layout } = this.page.scene;
    if (!layout.lanes) return;
    this.view.scroll = Math.max(0, Math.min(this.view.scroll + by, layout.rows.length * ROW - layout.lanes.height));
  }
}
