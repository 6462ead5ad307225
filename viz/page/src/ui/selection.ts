// The selection: an op, a host call, a block, or all blocks of a moment; described in the panel, framed in the picture.

import { Block, RunData } from '../data/run';
import { ROW, Row } from '../draw/lanes';
import { bytes, count, moment, shortened } from '../format';
import { Navigation } from '../navigation';
import { Page } from '../page';
import { Selection } from '../view';
import { blockName, blockRows, blockTitle, blockWhy, hostRows, Jump, opRows, opTitle, opWaits, rankRows } from './details';
import { button, el, swatch, table, visible } from './dom';
import { grid, section } from './panel';
import { laneOf, rankDetails } from './rank_row';
import { Stage } from './stage';
import { waitDetails } from './time';

/** A block's name, and under it the line of the program that allocated it, and whether it waits to be freed. */
function named(run: RunData, block: Block, pending: boolean): Node {
  const name = blockName(run, block) || (run.meta.categories[block.category]?.title ?? '—');
  const frame = block.frame >= 0 ? visible(run.name(block.frame)) : '';
  const end = frame.slice(frame.lastIndexOf('/') + 1);
  const more = [end, pending ? 'pending free' : ''].filter((text) => text !== '').join(', ');
  return el('span', { className: 'block-name' }, name, more ? el('span', { className: 'faint', title: frame }, more) : undefined);
}

export class SelectionPanel {
  readonly box = el('div', { className: 'selection-box' });
  private turn = 0;

  constructor(
    private readonly page: Page,
    private readonly stage: Stage,
    private readonly navigation: Navigation,
    /** The box has something new. */
    private readonly shown: () => void,
  ) {}

  async select(selection: Selection | undefined, show: boolean): Promise<void> {
    const turn = ++this.turn;
    this.page.scene.view.selection = selection;
    this.stage.marked = undefined;
    if (!selection || !this.page.scene.runs[selection.run]) {
      this.page.scene.view.selection = undefined;
      this.box.replaceChildren();
      this.page.changed();
      return;
    }
    const run = this.page.scene.runs[selection.run];
    await run.loadNames();
    const jump: Jump = (text, to) => button(shortened(text), text, () => void this.select({ ...to, run: selection.run }, true), 'link');
    const content = await this.describe(run, selection, jump);
    if (turn !== this.turn) return;
    this.box.replaceChildren(content ?? section('Selection', true, 'This run has nothing of that number.'));
    if (content) {
      content.querySelector('summary')!.append(button('×', 'forget it (esc)', () => void this.select(undefined, false), 'close'));
      this.shown();
    }
    if (show) this.reveal();
    this.page.changed();
  }

  private async describe(run: RunData, selection: Selection, jump: Jump): Promise<HTMLElement | undefined> {
    const { id, run: index } = selection;
    if (selection.kind === 'block') {
      const block = await run.block(id);
      if (!block) return undefined;
      const from = run.older(block) ? run.meta.memory!.first : block.made, to = run.seen(block.back) ? block.back : run.memoryEnd;
      this.stage.marked = { run: index, block, from: run.clock.toAxis(from), to: run.clock.toAxis(to), waits: [] };
      return section(blockTitle(run, block), true, table(blockRows(run, block)), el('h4', {}, 'why is it alive?'), blockWhy(run, block, undefined, jump));
    }
    if (selection.kind === 'host') {
      const op = await run.hostOp(id);
      if (!op) return undefined;
      this.stage.marked = { run: index, track: op.track, from: op.start, to: op.end, waits: [] };
      const launched = op.op >= 0 ? await run.deviceOp(op.op) : undefined;
      return section(visible(run.name(op.name)), true, table(hostRows(run, op)),
        launched && el('p', {}, 'put on a stream: ', jump(opTitle(run, launched), { kind: 'op', id: launched.id })));
    }
    if (selection.kind === 'wait') {
      const wait = run.waits[id];
      if (!wait || !run.time) return undefined;
      this.stage.marked = { run: index, wait: true, from: wait.from, to: wait.to, waits: [] };
      return section('Why the compute stream waits', true, await waitDetails(run, run.time, wait, jump));
    }
    if (selection.kind === 'row') {
      const row = run.ranks?.rows[id];
      if (!row) return undefined;
      this.showLane(index, laneOf(run, row.rank));
      return section(visible(row.name), true, rankDetails(run, id, this.page.scene.view.from, this.page.scene.view.to));
    }
    if (selection.kind === 'rank') {
      const op = await run.rankOp(id);
      if (!op) return undefined;
      this.stage.marked = { run: index, from: op.start, to: op.end, waits: [] };
      return section(`${visible(run.name(op.name))} of rank ${op.rank}`, true, table(rankRows(run, op)));
    }
    const op = await run.deviceOp(id);
    if (!op) return undefined;
    const waits: { track: number; from: number }[] = [];
    for (const wait of [...op.waits.map((of) => of.op), op.previous]) {
      const other = wait >= 0 ? await run.deviceOp(wait) : undefined;
      if (other) waits.push({ track: other.track, from: other.end });
    }
    this.stage.marked = { run: index, track: op.track, from: op.start, to: op.end, waits };
    return section(opTitle(run, op), true, table(opRows(run, op)), el('h4', {}, 'what it waits for'), await opWaits(run, op, jump));
  }

  /** Brings the selection into view: wide enough to be seen, with its surroundings. */
  private reveal(): void {
    const of = this.stage.marked;
    if (!of) return;
    const length = this.page.scene.view.to - this.page.scene.view.from;
    const seen = of.from >= this.page.scene.view.from && of.to <= this.page.scene.view.to;
    const size = of.to - of.from;
    if (!seen || size < length / 300) {
      const window = Math.min(Math.max(size * 12, 1000), Math.max(length, size * 1.5));
      const middle = size > window ? of.from + window / 3 : (of.from + of.to) / 2;
      this.navigation.setWindow(middle - window / 2, middle + window / 2);
    }
    if (of.track !== undefined || of.wait) {
      const { rows, lanes } = this.page.scene.arrange(...this.stage.size());
      const run = this.page.scene.runs[of.run];
      const shown = (row: Row) => row.run === of.run && (of.wait ? row.kind === 'waits' : row.track === of.track);
      if (of.track !== undefined && !rows.some(shown)) this.page.scene.view.unfolded.add(`${of.run}:${run.meta.tracks[of.track].lane}`);
      const index = this.page.scene.arrange(...this.stage.size()).rows.findIndex(shown);
      if (lanes && (index * ROW < this.page.scene.view.scroll || (index + 1) * ROW > this.page.scene.view.scroll + lanes.height)) {
        this.page.scene.view.scroll = 0;
        this.navigation.scrollLanes(index * ROW - lanes.height / 2);
      }
    }
  }

  /** Scrolls the lanes to one. */
  private showLane(run: number, lane: number): void {
    const { rows, lanes } = this.page.scene.arrange(...this.stage.size());
    const at = rows.findIndex((row) => row.run === run && row.lane === lane);
    if (at < 0 || lane < 0 || !lanes) return;
    this.page.scene.view.scroll = 0;
    this.navigation.scrollLanes(at * ROW);
  }

  /** The blocks alive at a time of the axis. */
  async showMoment(at: number): Promise<void> {
    const turn = ++this.turn;
    this.stage.marked = undefined;
    this.page.scene.view.selection = undefined;
    const parts: Node[] = [];
    for (const [i, run] of this.page.scene.runs.entries()) {
      await run.loadNames();
      const time = run.clock.toMemory(at);
      const blocks = await run.blocksAt(time);
      if (turn !== this.turn) return;
      blocks.sort((a, b) => b.size - a.size || a.id - b.id);
      const shares = new Map<number, number>();
      for (const block of blocks) shares.set(block.category, (shares.get(block.category) ?? 0) + block.size);
      if (this.page.scene.several) parts.push(el('h4', {}, visible(run.label)));
      parts.push(grid(['category', 'bytes'], [...shares].sort((a, b) => b[1] - a[1]).map(([category, size]) =>
        [el('span', {}, swatch(run.meta.categories[category].colour), run.meta.categories[category].title), bytes(size)])));
      parts.push(el('h4', {}, `${count(blocks.length)} blocks in use, the largest`));
      parts.push(grid(['block', 'size', 'of, allocated by'], blocks.slice(0, 25).map((block) => [
        button(`#${block.id}`, 'why it is alive', () => void this.select({ kind: 'block', run: i, id: block.id }, false), 'link'),
        bytes(block.size), named(run, block, block.freed <= time),
      ]), 'grid blocks'));
    }
    const content = section(`At ${moment(Math.round(at))}`, true, ...parts);
    content.querySelector('summary')!.append(button('×', 'forget it (esc)', () => void this.select(undefined, false), 'close'));
    this.box.replaceChildren(content);
    this.shown();
    this.page.changed();
  }
}
