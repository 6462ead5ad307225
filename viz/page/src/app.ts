// The page: joins the scene, the view, what the user does, and the panel.

import { Ink, memoryEnd, STATISTICS } from './data/meta';
import { Block, RunData } from './data/run';
import { json, DataSource } from './data/source';
import { blocksMade, laneTotals, memoryExtent } from './data/totals';
import { Frame, inside } from './draw/frame';
import { Bar, barAt, ROW } from './draw/lanes';
import { blockAt } from './draw/map';
import { CanvasSurface } from './draw/surface';
import { both, bytes, count, duration, moment, percent, shortened } from './format';
import { Scene } from './scene';
import { blockRows, blockTitle, blockWhy, hostRows, Jump, manyOps, opRows, opTitle, opWaits } from './ui/details';
import { button, el, swatch, table, visible } from './ui/dom';
import { helpDialog } from './ui/help';
import { buildLegend } from './ui/legend';
import { compareSection, explainSection, grid, peaksTable, runSection, section } from './ui/panel';
import { copyPng, copyText, csvOf, pngOf, saveFile, svgOf } from './ui/save';
import { Found, search } from './ui/search';
import { readLink, Selection, View, writeLink } from './view';

const LEAST_WINDOW = 50; // ns
type Hit =
  | { kind: 'bar'; run: number; track: number; bar: Bar }
  | { kind: 'block'; block: Block }
  | { kind: 'memory'; time: number }
  | { kind: 'label'; key: string };

export class App {
  private readonly scene: Scene;
  private readonly view: View;
  private readonly canvas = el('canvas', { className: 'scene' });
  private readonly overlay = el('canvas', { className: 'overlay' });
  private readonly stage = el('div', { className: 'stage' }, this.canvas, this.overlay);
  private readonly tooltip = el('div', { className: 'tooltip', hidden: true });
  private readonly panel = el('aside', { className: 'panel' });
  private readonly selectionBox = el('div', { className: 'selection-box' });
  private readonly rangeBox = el('div', { className: 'range-box' });
  private readonly legendBox = el('div', { className: 'legend-box' });
  private readonly searchInput = el('input', { type: 'search', placeholder: 'Search ops, blocks, units (/)', className: 'search' });
  private readonly searchCount = el('span', { className: 'search-count' });
  private readonly notice = el('div', { className: 'notice', hidden: true });
  private readonly help = helpDialog();
  private readonly whole: { from: number; to: number; mapTo: number };
  private found: Found[] = [];
  private foundAt = -1;
  private foundMore = false;
  private pointer?: { x: number; y: number };
  private drawAsked = false;
  private rangeTurn = 0;
  private selectTurn = 0;
  private marked?: { run: number; from: number; to: number; track?: number; block?: Block; waits: { track: number; from: number }[] };
  private readonly darkQuery = matchMedia('(prefers-color-scheme: dark)');
  /** For tests: times of the last frames in ms, and whether something is still to come. */
  readonly frames: number[] = [];

  constructor(
    private readonly runs: RunData[],
    private readonly source: DataSource,
    theme: View['theme'],
    title: string,
  ) {
    const spans = runs.flatMap((run) => [
      ...(run.meta.memory ? [[run.meta.memory.first, memoryEnd(run.meta)]] : []),
      ...(run.meta.tracks.length ? [[run.meta.lanes_span.first, run.meta.lanes_span.last]] : []),
    ]);
    const mapTo = Math.max(1, runs[0].meta.blocks?.length ?? 1);
    this.whole = { from: Math.min(...spans.map(([from]) => from)), to: Math.max(...spans.map(([, to]) => to)) + 1, mapTo };
    this.view = {
      from: Math.min(...runs.map((run) => run.meta.view.from)), to: Math.max(...runs.map((run) => run.meta.view.to)),
      stacking: 'category', hidden: new Set(), sections: { memory: true, lanes: true, map: true }, theme,
      mapFrom: 0, mapTo, unfolded: new Set(), scroll: 0,
    };
    if (location.hash.length > 1) readLink(location.hash, this.view);
    this.scene = new Scene(runs, this.view, () => this.ink());
    this.build(title);
    this.listen();
    this.applyTheme();
    this.refreshLegend();
    void Promise.all(runs.map((run) => run.loadNames())).then(() => this.redraw());
    void this.fillPanel();
    if (this.view.selection) void this.select(this.view.selection, false);
    if (this.view.range) void this.showRange();
  }

  // ---- drawing

  redraw = (): void => {
    if (this.drawAsked) return;
    this.drawAsked = true;
    requestAnimationFrame(() => {
      this.drawAsked = false;
      this.draw();
    });
  };

  private size(): [number, number] {
    return [this.stage.clientWidth, this.stage.clientHeight];
  }

  private context(canvas: HTMLCanvasElement): CanvasRenderingContext2D {
    const [width, height] = this.size();
    const scale = window.devicePixelRatio || 1;
    const [w, h] = [Math.round(width * scale), Math.round(height * scale)];
    if (canvas.width !== w || canvas.height !== h) {
      canvas.width = w;
      canvas.height = h;
    }
    const context = canvas.getContext('2d')!;
    context.setTransform(scale, 0, 0, scale, 0, 0);
    return context;
  }

  private draw(): void {
    const start = performance.now();
    const [width, height] = this.size();
    if (width < 10 || height < 10) return;
    this.scene.draw(new CanvasSurface(this.context(this.canvas)), width, height);
    this.drawOverlay();
    this.frames.push(performance.now() - start);
    if (this.frames.length > 500) this.frames.shift();
    performance.mark('foreshard-frame');
  }

  private drawOverlay(): void {
    const [width, height] = this.size();
    const context = this.context(this.overlay);
    context.clearRect(0, 0, width, height);
    const surface = new CanvasSurface(context);
    const { layout } = this.scene;
    const ink = this.ink();
    const { frame } = layout;
    if (this.view.range) {
      const [x0, x1] = this.view.range.map((time) => frame.x(time));
      const left = Math.max(x0, frame.left), right = Math.min(x1, frame.left + frame.width);
      if (right > left) {
        surface.rect(left, 20, right - left, layout.axis - 20, ink.text, 0.09);
        surface.path([left, 20, left, layout.axis], 4, ink.text, 1);
        surface.path([right, 20, right, layout.axis], 4, ink.text, 1);
      }
    }
    surface.clip(frame.left - 3, 0, frame.width + 6, height);
    this.drawMarked(surface, ink);
    surface.unclip();
    if (this.pointer && this.pointer.x >= frame.left && this.pointer.x <= frame.left + frame.width) {
      surface.path([this.pointer.x + 0.5, 20, this.pointer.x + 0.5, layout.axis], 4, ink.faint, 0.8, [3, 3]);
      const text = moment(Math.round(frame.time(this.pointer.x)));
      const size = surface.textWidth(text, 11);
      const x = Math.min(Math.max(this.pointer.x, frame.left + size / 2 + 4), frame.left + frame.width - size / 2 - 4);
      surface.rect(x - size / 2 - 4, layout.axis + 3, size + 8, 16, ink.text);
      surface.text(x, layout.axis + 15, text, { fill: ink.paper, size: 11, align: 'center' });
    }
  }

  private rowY(run: number, track: number): number | undefined {
    const { layout } = this.scene;
    if (!layout.lanes) return undefined;
    let index = layout.rows.findIndex((row) => row.run === run && row.track === track);
    if (index < 0) {
      const lane = this.runs[run].meta.tracks[track]?.lane;
      index = layout.rows.findIndex((row) => row.run === run && row.lane === lane);
    }
    if (index < 0) return undefined;
    const y = layout.lanes.y + index * ROW - this.view.scroll;
    return y >= layout.lanes.y - ROW && y < layout.lanes.y + layout.lanes.height ? y : undefined;
  }

  private drawMarked(surface: CanvasSurface, ink: Ink): void {
    const of = this.marked;
    const { layout } = this.scene;
    const { frame } = layout;
    if (!of) return;
    const x0 = Math.max(frame.x(of.from), frame.left - 3), x1 = Math.min(frame.x(of.to), frame.left + frame.width + 3);
    if (x1 < frame.left || x0 > frame.left + frame.width) return;
    if (of.track !== undefined) {
      const y = this.rowY(of.run, of.track);
      if (y === undefined) return;
      surface.frame(x0 - 1, y + 1, Math.max(x1 - x0, 1) + 2, ROW - 2, ink.text, 2);
      for (const wait of of.waits) {
        const from = this.rowY(of.run, wait.track);
        if (from === undefined) continue;
        const x = frame.x(wait.from);
        surface.path([x, from + ROW / 2, x0, y + ROW / 2], 4, ink.active, 1.5);
        surface.area([x0, y + ROW / 2, x0 - 7, y + ROW / 2 - 4, x0 - 7, y + ROW / 2 + 4], 6, ink.active);
      }
    }
    if (of.block && layout.map && of.run === 0) {
      const place = (at: number) =>
        layout.map!.y + layout.map!.height - ((at - this.view.mapFrom) / (this.view.mapTo - this.view.mapFrom)) * layout.map!.height;
      const y0 = Math.max(place(of.block.place + of.block.size), layout.map.y), y1 = Math.min(place(of.block.place), layout.map.y + layout.map.height);
      if (y1 >= layout.map.y && y0 <= layout.map.y + layout.map.height)
        surface.frame(x0 - 1, y0 - 1, Math.max(x1 - x0, 1) + 2, Math.max(y1 - y0, 1) + 2, ink.text, 2);
    }
  }

  // ---- the view

  private ink(): Ink {
    return this.dark ? this.runs[0].meta.ink.dark : this.runs[0].meta.ink.light;
  }
  private get dark(): boolean {
    return this.view.theme === 'auto' ? this.darkQuery.matches : this.view.theme === 'dark';
  }

  private applyTheme(): void {
    document.documentElement.dataset.theme = this.dark ? 'dark' : 'light';
    const ink = this.ink();
    for (const [name, value] of Object.entries(ink)) document.documentElement.style.setProperty(`--${name}`, value);
    this.refreshLegend();
    this.redraw();
  }

  private linkTimer = 0;
  private changed(): void {
    this.redraw();
    clearTimeout(this.linkTimer);
    this.linkTimer = window.setTimeout(() => this.writeLink(), 150);
  }
  private writeLink(): void {
    const text = `#${writeLink(this.view, this.whole)}`;
    try {
      history.replaceState(null, '', text);
    } catch {
      location.hash = text;
    }
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
    this.changed();
  }

  private zoom(factor: number, at: number): void {
    const { from, to } = this.view;
    this.setWindow(at - (at - from) * factor, at + (to - at) * factor);
  }
  private pan(share: number): void {
    const move = (this.view.to - this.view.from) * share;
    this.setWindow(this.view.from + move, this.view.to + move);
  }
  private fit(all: boolean): void {
    this.view.mapFrom = 0;
    this.view.mapTo = this.whole.mapTo;
    if (all) this.setWindow(this.whole.from, this.whole.to);
    else this.setWindow(Math.min(...this.runs.map((run) => run.meta.view.from)), Math.max(...this.runs.map((run) => run.meta.view.to)));
  }
  private zoomMap(factor: number, y: number): void {
    const box = this.scene.layout.map;
    if (!box) return;
    const { mapFrom, mapTo } = this.view;
    const at = mapFrom + ((box.y + box.height - y) / box.height) * (mapTo - mapFrom);
    const length = Math.min(Math.max((mapTo - mapFrom) * factor, 4096), this.whole.mapTo);
    const share = (at - mapFrom) / (mapTo - mapFrom);
    this.moveMap(at - share * length, length);
  }
  private moveMap(from: number, length: number): void {
    this.view.mapFrom = Math.min(Math.max(from, 0), this.whole.mapTo - length);
    this.view.mapTo = this.view.mapFrom + length;
    this.changed();
  }
  private scrollLanes(by: number): void {
    const { layout } = this.scene;
    if (!layout.lanes) return;
    this.view.scroll = Math.max(0, Math.min(this.view.scroll + by, layout.rows.length * ROW - layout.lanes.height));
  }

  // ---- building

  private build(title: string): void {
    document.title = title;
    const stacking = el('select', { title: 'what the memory is stacked by', className: 'stacking' });
    const options = [...(this.runs[0].meta.memory?.stackings ?? []).map((of) => [of.key, of.statistic === 'allocated' ? `by ${of.title}` : of.title]), ['', 'lines only']];
    for (const [value, text] of options) stacking.append(el('option', { value, textContent: text }));
    stacking.value = this.view.stacking;
    stacking.addEventListener('change', () => {
      this.view.stacking = stacking.value;
      this.refreshLegend();
      this.changed();
    });
    const toggles = (['memory', 'lanes', 'map'] as const).map((name) => {
      const box = el('input', { type: 'checkbox', checked: this.view.sections[name] });
      box.addEventListener('change', () => {
        this.view.sections[name] = box.checked;
        this.refreshLegend();
        this.changed();
      });
      return el('label', { className: 'toggle' }, box, name === 'map' ? 'addresses' : name);
    });
    const bar = el('header', { className: 'top' },
      el('h1', { title: visible(title) }, visible(title)),
      this.scene.several || !this.runs[0].meta.memory ? undefined : stacking,
      ...toggles,
      el('span', { className: 'grow' }),
      this.searchInput,
      button('‹', 'the find before (shift-enter, p)', () => this.nextFound(-1), 'step'),
      button('›', 'the next find (enter, n)', () => this.nextFound(1), 'step'),
      this.searchCount,
      button('Fit', 'the step (f); everything (shift-f)', () => this.fit(false)),
      button('Link', 'copies a link to this view', () => void this.copyLink()),
      this.saveMenu(),
      button('◐', 'light, dark (t)', () => this.nextTheme(), 'theme'),
      button('?', 'keys (?)', () => this.help.showModal(), 'help'),
    );
    this.panel.append(this.selectionBox, this.rangeBox);
    document.getElementById('app')!.append(bar, el('main', {}, el('div', { className: 'left' }, this.stage, this.legendBox), this.panel),
      this.tooltip, this.notice, this.help);
    new ResizeObserver(() => this.redraw()).observe(this.stage);
    this.darkQuery.addEventListener('change', () => this.applyTheme());
  }

  private saveMenu(): HTMLElement {
    const name = (this.runs.map((run) => run.meta.name).join('-vs-').replace(/[^\w.-]+/g, '_') || 'run').slice(0, 80);
    const menu = el('details', { className: 'menu' }, el('summary', { title: 'the view as a picture or a table' }, 'Save'));
    const measure = (text: string, size: number) => new CanvasSurface(this.canvas.getContext('2d')!).textWidth(text, size);
    const entry = (text: string, action: () => void | Promise<void>) =>
      button(text, '', () => {
        menu.open = false;
        void action();
      });
    const svg = () => svgOf(this.scene, ...this.size(), measure);
    const copied = (done: boolean) => this.say(done ? 'Copied.' : 'The browser did not let this page copy; save it instead.');
    menu.append(el('div', { className: 'menu-list' },
      entry('SVG file', () => saveFile(`${name}.svg`, new Blob([svg()], { type: 'image/svg+xml' }))),
      entry('PNG file', async () => saveFile(`${name}.png`, await pngOf(this.scene, ...this.size()))),
      entry('CSV file', () => saveFile(`${name}.csv`, new Blob([csvOf(this.scene)], { type: 'text/csv' }))),
      entry('Copy SVG', async () => copied(await copyText(svg()))),
      entry('Copy PNG', async () => copied(await copyPng(await pngOf(this.scene, ...this.size())))),
      entry('Copy CSV', async () => copied(await copyText(csvOf(this.scene)))),
    ));
    return menu;
  }

  private say(text: string): void {
    this.notice.textContent = text;
    this.notice.hidden = false;
    window.setTimeout(() => (this.notice.hidden = true), 2500);
  }

  private async copyLink(): Promise<void> {
    this.writeLink();
    this.say((await copyText(location.href)) ? 'Copied a link to this view.' : location.href);
  }

  private nextTheme(): void {
    this.view.theme = this.dark ? 'light' : 'dark';
    this.applyTheme();
    this.changed();
  }

  private refreshLegend(): void {
    this.legendBox.replaceChildren(buildLegend(this.scene, this.ink(), (key, only) => this.toggle(key, only)));
  }

  private toggle(key: string, only: boolean): void {
    const { hidden } = this.view;
    if (only) {
      const group = key.split(':')[0];
      const keys = [...this.legendBox.querySelectorAll<HTMLElement>('[data-key]')].map((item) => item.dataset.key!).filter((of) => of.startsWith(`${group}:`));
      const alone = keys.every((of) => (of === key) !== hidden.has(of));
      for (const of of keys) if (alone || of === key) hidden.delete(of);
        else hidden.add(of);
    } else if (!hidden.delete(key)) hidden.add(key);
    this.refreshLegend();
    this.changed();
  }

  private async fillPanel(): Promise<void> {
    const parts: HTMLElement[] = [];
    const compare = await json<{ [key: string]: unknown }>(this.source, 'compare');
    if (compare) parts.push(section('Difference', true, compareSection(compare, this.runs.map((run) => run.label))));
    for (const run of this.runs) {
      const label = this.scene.several ? ` ${run.label}` : '';
      const explain = await json<{ [key: string]: unknown }>(this.source, `${run.prefix}explain`);
      if (explain) parts.push(section(`Why is memory over-allocated?${label}`, !compare, explainSection(run, explain)));
      const peaks = peaksTable(run);
      if (peaks) parts.push(section(`Peaks${label}`, !compare, peaks));
      parts.push(section(visible(`Run: ${run.meta.headline}`), !compare && !explain, runSection(run)));
    }
    this.panel.append(...parts);
  }

  // ---- what stands where

  private hit(x: number, y: number): Hit | undefined {
    const { layout } = this.scene;
    const { frame } = layout;
    if (layout.lanes && y >= layout.lanes.y && y < layout.lanes.y + layout.lanes.height) {
      const row = layout.rows[Math.floor((y - layout.lanes.y + this.view.scroll) / ROW)];
      if (!row || row.kind !== 'track') return undefined;
      if (x < frame.left) return row.folds > 1 ? { kind: 'label', key: `${row.run}:${row.lane}` } : undefined;
      const bar = barAt(this.runs[row.run], row.track, frame, frame.time(x), 3 * frame.nsPerPixel);
      return bar && !this.scene.hidden(`class:${bar.opClass}`) ? { kind: 'bar', run: row.run, track: row.track, bar } : undefined;
    }
    if (x < frame.left || x > frame.left + frame.width) return undefined;
    if (layout.map && inside(layout.map, x, y)) {
      const block = blockAt(this.runs[0], frame, layout.map, this.scene.mapStyle(), x, y);
      return block && { kind: 'block', block };
    }
    if (layout.memory && inside(layout.memory, x, y)) return { kind: 'memory', time: frame.time(x) };
    return undefined;
  }

  private hover(x: number, y: number): void {
    this.pointer = { x, y };
    this.drawOverlay();
    const hit = this.hit(x, y);
    this.overlay.style.cursor = hit?.kind === 'label' || hit?.kind === 'bar' || hit?.kind === 'block' ? 'pointer' : 'crosshair';
    const content = hit && this.tooltipOf(hit, x, y);
    this.tooltip.hidden = !content;
    if (!content) return;
    this.tooltip.replaceChildren(content);
    const [width, height] = [this.tooltip.offsetWidth, this.tooltip.offsetHeight];
    const stage = this.stage.getBoundingClientRect();
    const px = stage.left + x, py = stage.top + y;
    this.tooltip.style.left = `${Math.max(4, px + 16 + width > innerWidth ? px - width - 12 : px + 16)}px`;
    this.tooltip.style.top = `${Math.max(4, Math.min(py + 14, innerHeight - height - 6))}px`;
  }

  private tooltipOf(hit: Hit, x: number, y: number): HTMLElement | undefined {
    if (hit.kind === 'label') return el('div', {}, 'click: show or fold the rows of nested calls');
    if (hit.kind === 'block')
      return el('div', {}, el('b', {}, blockTitle(this.runs[0], hit.block)), table(blockRows(this.runs[0], hit.block)), el('i', {}, 'click: why it is alive'));
    if (hit.kind === 'memory') return this.memoryTooltip(x, y, hit.time);
    const run = this.runs[hit.run];
    const { bar } = hit;
    if (bar.count > 1) return manyOps(run.meta.classes[bar.opClass].title, bar.count, bar.busy, bar.start, bar.end);
    const { source } = run.meta.lanes[run.meta.tracks[hit.track].lane];
    if (source === 'host') {
      const op = run.hostOpNow(bar.id);
      return op && el('div', {}, el('b', {}, visible(run.name(op.name))), table(hostRows(run, op)));
    }
    const op = run.deviceOpNow(bar.id);
    return op && el('div', {}, el('b', {}, opTitle(run, op)), table(opRows(run, op)), el('i', {}, 'click: what it waits for'));
  }

  private memoryTooltip(x: number, y: number, time: number): HTMLElement | undefined {
    const box = el('div', {}, el('b', {}, moment(Math.round(time))));
    let any = false;
    this.runs.forEach((run, i) => {
      const now = this.scene.statisticsAt(i, x);
      if (!now) return;
      any = true;
      if (this.scene.several) box.append(el('div', {}, visible(run.label)));
      box.append(table([
        ['allocated', both(now.allocated)],
        ['active', now.active === now.allocated ? 'the same' : both(now.active)],
        ['reserved', both(now.reserved)],
        ['requested', both(now.requested)],
        ['reserved − allocated', both(now.reserved - now.allocated)],
      ]));
    });
    const part = this.scene.componentAt(x, y);
    if (part) box.append(el('div', { className: 'part' }, swatch(part.colour), `${visible(part.title)}: ${both(part.bytes)}`));
    if (any) box.append(el('i', {}, 'click: the blocks alive then'));
    return any ? box : undefined;
  }

  // ---- selecting

  async select(selection: Selection | undefined, show: boolean): Promise<void> {
    const turn = ++this.selectTurn;
    this.view.selection = selection;
    this.marked = undefined;
    if (!selection || !this.runs[selection.run]) {
      this.view.selection = undefined;
      this.selectionBox.replaceChildren();
      this.changed();
      return;
    }
    const run = this.runs[selection.run];
    await run.loadNames();
    const jump: Jump = (text, to) => button(shortened(text), text, () => void this.select({ ...to, run: selection.run }, true), 'link');
    const content = await this.describe(run, selection, jump);
    if (turn !== this.selectTurn) return;
    this.selectionBox.replaceChildren(content ?? section('Selection', true, 'This run has nothing of that number.'));
    if (content) {
      content.querySelector('summary')!.append(button('×', 'forget it (esc)', () => void this.select(undefined, false), 'close'));
      this.panel.scrollTop = 0;
    }
    if (show) this.reveal();
    this.changed();
  }

  private async describe(run: RunData, selection: Selection, jump: Jump): Promise<HTMLElement | undefined> {
    const { id, run: index } = selection;
    if (selection.kind === 'block') {
      const block = await run.block(id);
      if (!block) return undefined;
      const memory = run.meta.memory!;
      this.marked = { run: index, block, from: run.older(block) ? memory.first : block.made, to: run.seen(block.back) ? block.back : memoryEnd(run.meta), waits: [] };
      return section(blockTitle(run, block), true, table(blockRows(run, block)), el('h4', {}, 'why is it alive?'), blockWhy(run, block, undefined, jump));
    }
    if (selection.kind === 'host') {
      const op = await run.hostOp(id);
      if (!op) return undefined;
      this.marked = { run: index, track: op.track, from: op.start, to: op.end, waits: [] };
      const launched = op.op >= 0 ? await run.deviceOp(op.op) : undefined;
      return section(visible(run.name(op.name)), true, table(hostRows(run, op)),
        launched && el('p', {}, 'put on a stream: ', jump(opTitle(run, launched), { kind: 'op', id: launched.id })));
    }
    const op = await run.deviceOp(id);
    if (!op) return undefined;
    const waits: { track: number; from: number }[] = [];
    for (const wait of [...op.waits.map((of) => of.op), op.previous]) {
      const other = wait >= 0 ? await run.deviceOp(wait) : undefined;
      if (other) waits.push({ track: other.track, from: other.end });
    }
    this.marked = { run: index, track: op.track, from: op.start, to: op.end, waits };
    return section(opTitle(run, op), true, table(opRows(run, op)), el('h4', {}, 'what it waits for'), await opWaits(run, op, jump));
  }

  /** Brings the selection into view: wide enough to be seen, with its surroundings. */
  private reveal(): void {
    const of = this.marked;
    if (!of) return;
    const length = this.view.to - this.view.from;
    const seen = of.from >= this.view.from && of.to <= this.view.to;
    const size = of.to - of.from;
    if (!seen || size < length / 300) {
      const window = Math.min(Math.max(size * 12, 1000), Math.max(length, size * 1.5));
      const middle = size > window ? of.from + window / 3 : (of.from + of.to) / 2;
      this.setWindow(middle - window / 2, middle + window / 2);
    }
    if (of.track !== undefined) {
      const { rows, lanes } = this.scene.arrange(...this.size());
      const run = this.runs[of.run];
      const lane = run.meta.tracks[of.track].lane;
      if (!rows.some((row) => row.run === of.run && row.track === of.track)) this.view.unfolded.add(`${of.run}:${lane}`);
      const index = this.scene.arrange(...this.size()).rows.findIndex((row) => row.run === of.run && row.track === of.track);
      if (lanes && (index * ROW < this.view.scroll || (index + 1) * ROW > this.view.scroll + lanes.height)) {
        this.view.scroll = 0;
        this.scrollLanes(index * ROW - lanes.height / 2);
      }
    }
  }

  private async showMoment(time: number): Promise<void> {
    const turn = ++this.selectTurn;
    this.marked = undefined;
    this.view.selection = undefined;
    const parts: Node[] = [];
    for (const [i, run] of this.runs.entries()) {
      await run.loadNames();
      const blocks = await run.blocksAt(time);
      if (turn !== this.selectTurn) return;
      blocks.sort((a, b) => b.size - a.size || a.id - b.id);
      const shares = new Map<number, number>();
      for (const block of blocks) shares.set(block.category, (shares.get(block.category) ?? 0) + block.size);
      if (this.scene.several) parts.push(el('h4', {}, visible(run.label)));
      parts.push(grid(['category', 'bytes'], [...shares].sort((a, b) => b[1] - a[1]).map(([category, size]) =>
        [el('span', {}, swatch(run.meta.categories[category].colour), run.meta.categories[category].title), bytes(size)])));
      parts.push(el('h4', {}, `${count(blocks.length)} blocks in use, the largest`));
      parts.push(grid(['block', 'size', 'unit'], blocks.slice(0, 25).map((block) => [
        button(`#${block.id}${block.freed <= time ? ' (pending free)' : ''}`, 'why it is alive', () => void this.select({ kind: 'block', run: i, id: block.id }, false), 'link'),
        bytes(block.size), visible(run.meta.units[block.unit] ?? '—'),
      ])));
    }
    const content = section(`At ${moment(Math.round(time))}`, true, ...parts);
    content.querySelector('summary')!.append(button('×', 'forget it (esc)', () => void this.select(undefined, false), 'close'));
    this.selectionBox.replaceChildren(content);
    this.panel.scrollTop = 0;
    this.changed();
  }

  private async showRange(): Promise<void> {
    const turn = ++this.rangeTurn;
    const { range } = this.view;
    if (!range) {
      this.rangeBox.replaceChildren();
      return;
    }
    const [from, to] = range;
    const parts: Node[] = [table([['from', moment(Math.round(from))], ['to', moment(Math.round(to))], ['length', duration(to - from)]])];
    for (const run of this.runs) {
      if (this.scene.several) parts.push(el('h4', {}, visible(run.label)));
      const extent = await memoryExtent(run, from, to);
      if (extent)
        parts.push(grid(['memory', 'most', 'least'], STATISTICS.map((name) =>
          [name, el('span', { title: both(extent[name].most), data: { bytes: String(extent[name].most) } }, bytes(extent[name].most)), bytes(extent[name].least)]), 'grid range-memory'));
      const made = await blocksMade(run, from, to);
      if (made.length)
        parts.push(grid(['blocks made', 'count', 'bytes'], made.map((of) =>
          [el('span', {}, swatch(run.meta.categories[of.category].colour), run.meta.categories[of.category].title), count(of.blocks), bytes(of.bytes)]), 'grid range-blocks'));
      const lanes = await laneTotals(run, from, to);
      if (lanes.length)
        parts.push(grid(['lane', 'ops', 'busy', ''], lanes.flatMap((lane) => [
          [el('b', {}, visible(run.meta.lanes[lane.lane].name)), count(lane.ops), el('span', { data: { ns: String(Math.round(lane.busy)) } }, duration(lane.busy)), percent(lane.busy / (to - from))],
          ...(lane.classes.length > 1 ? lane.classes.map((of) => [el('span', { className: 'indent' }, swatch(run.meta.classes[of.opClass].colour), run.meta.classes[of.opClass].title), count(of.ops), duration(of.busy), percent(of.busy / (to - from))]) : []),
        ]), 'grid range-lanes'));
      if (turn !== this.rangeTurn) return;
    }
    const content = section('Range', true, ...parts);
    content.querySelector('summary')!.append(
      button('zoom', 'the window becomes the range', () => this.setWindow(from, to), 'close'),
      button('×', 'forget it (esc)', () => this.clearRange(), 'close'));
    this.rangeBox.replaceChildren(content);
    this.panel.scrollTop = 0;
  }

  private clearRange(): void {
    this.view.range = undefined;
    void this.showRange();
    this.changed();
  }

  // ---- searching

  private async runSearch(): Promise<void> {
    const text = this.searchInput.value;
    this.searchCount.textContent = text ? '…' : '';
    const { found, more } = await search(this.runs, text);
    if (text !== this.searchInput.value) return;
    this.found = found;
    this.foundMore = more;
    // The first find at or behind the window's begin.
    this.foundAt = found.findIndex((of) => of.time >= this.view.from);
    if (this.foundAt < 0 && found.length) this.foundAt = 0;
    this.showFound();
  }
  private showFound(): void {
    const total = `${count(this.found.length)}${this.foundMore ? '+' : ''}`;
    this.searchCount.textContent = !this.searchInput.value.trim() ? '' : this.found.length ? `${count(this.foundAt + 1)} of ${total}` : 'nothing';
    const now = this.found[this.foundAt];
    if (now) void this.select({ kind: now.kind, run: now.run, id: now.id }, true);
  }
  private nextFound(by: number): void {
    if (!this.found.length) return;
    this.foundAt = (this.foundAt + by + this.found.length) % this.found.length;
    this.showFound();
  }

  // ---- what the user does

  private listen(): void {
    const at = (event: MouseEvent): [number, number] => {
      const box = this.overlay.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    this.overlay.addEventListener('wheel', (event) => {
      event.preventDefault();
      const [x, y] = at(event);
      const { layout } = this.scene;
      const lines = event.deltaMode === 1 ? 16 : 1;
      const delta = (event.deltaY || 0) * lines, across = (event.deltaX || 0) * lines;
      if (event.shiftKey) this.pan((delta || across) / 1200);
      else if ((event.altKey || event.ctrlKey) && layout.map && inside(layout.map, x, y)) this.zoomMap(Math.exp(delta * 0.0018), y);
      else if (x < layout.frame.left) {
        this.scrollLanes(delta);
        this.changed();
      } else if (Math.abs(across) > Math.abs(delta)) this.pan(across / 1200);
      else this.zoom(Math.exp(Math.max(-400, Math.min(400, delta)) * 0.0022), layout.frame.time(x));
      this.hover(x, y);
    }, { passive: false });
    this.listenDrag(at);
    this.overlay.addEventListener('pointerleave', () => {
      this.pointer = undefined;
      this.tooltip.hidden = true;
      this.drawOverlay();
    });
    this.overlay.addEventListener('dblclick', (event) => {
      const hit = this.hit(...at(event));
      if (hit?.kind === 'bar') this.setWindow(hit.bar.start - (hit.bar.end - hit.bar.start) * 0.5 - 100, hit.bar.end + (hit.bar.end - hit.bar.start) * 0.5 + 100);
    });
    addEventListener('keydown', (event) => this.key(event));
    addEventListener('hashchange', () => {
      readLink(location.hash, this.view);
      this.applyTheme();
      void this.showRange();
      if (this.view.selection) void this.select(this.view.selection, false);
    });
    let timer = 0;
    this.searchInput.addEventListener('input', () => {
      clearTimeout(timer);
      timer = window.setTimeout(() => void this.runSearch(), 200);
    });
    this.searchInput.addEventListener('keydown', (event) => {
      if (event.key === 'Enter') this.nextFound(event.shiftKey ? -1 : 1);
      if (event.key === 'Escape') this.searchInput.blur();
      event.stopPropagation();
    });
  }

  private listenDrag(at: (event: MouseEvent) => [number, number]): void {
    let drag: { x: number; y: number; from: number; to: number; scroll: number; mapFrom: number; range: boolean; moved: boolean } | undefined;
    this.overlay.addEventListener('pointerdown', (event) => {
      if (event.button !== 0) return;
      const [x, y] = at(event);
      this.overlay.setPointerCapture(event.pointerId);
      drag = { x, y, from: this.view.from, to: this.view.to, scroll: this.view.scroll, mapFrom: this.view.mapFrom, range: event.shiftKey, moved: false };
      this.tooltip.hidden = true;
    });
    this.overlay.addEventListener('pointermove', (event) => {
      const [x, y] = at(event);
      if (!drag) {
        this.hover(x, y);
        return;
      }
      if (Math.abs(x - drag.x) + Math.abs(y - drag.y) > 4) drag.moved = true;
      if (!drag.moved) return;
      const { frame, lanes, map } = this.scene.layout;
      this.pointer = { x, y };
      if (drag.range) {
        const times = [new Frame(drag.from, drag.to, frame.left, frame.width).time(drag.x), frame.time(x)].sort((a, b) => a - b);
        this.view.range = [times[0], Math.max(times[1], times[0] + 1)];
        this.drawOverlay();
        return;
      }
      const move = ((drag.x - x) / frame.width) * (drag.to - drag.from);
      if (lanes && inside(lanes, Math.max(drag.x, frame.left), drag.y)) {
        this.view.scroll = drag.scroll;
        this.scrollLanes(drag.y - y);
      }
      if (map && inside(map, drag.x, drag.y)) this.moveMap(drag.mapFrom + ((y - drag.y) / map.height) * (this.view.mapTo - this.view.mapFrom), this.view.mapTo - this.view.mapFrom);
      this.setWindow(drag.from + move, drag.to + move);
    });
    this.overlay.addEventListener('pointerup', (event) => {
      const [x, y] = at(event);
      const done = drag;
      drag = undefined;
      if (!done) return;
      if (done.moved && done.range) {
        void this.showRange();
        this.changed();
      }
      if (!done.moved) this.click(x, y);
    });
  }

  private click(x: number, y: number): void {
    const hit = this.hit(x, y);
    if (!hit) return;
    if (hit.kind === 'label') {
      if (!this.view.unfolded.delete(hit.key)) this.view.unfolded.add(hit.key);
      this.scrollLanes(0);
      this.changed();
    } else if (hit.kind === 'memory') void this.showMoment(hit.time);
    else if (hit.kind === 'block') void this.select({ kind: 'block', run: 0, id: hit.block.id }, false);
    else if (hit.bar.count > 1) this.setWindow(hit.bar.start - (hit.bar.end - hit.bar.start) * 0.2, hit.bar.end + (hit.bar.end - hit.bar.start) * 0.2);
    else {
      const run = this.runs[hit.run];
      const { source } = run.meta.lanes[run.meta.tracks[hit.track].lane];
      void this.select({ kind: source === 'host' ? 'host' : 'op', run: hit.run, id: hit.bar.id }, false);
    }
  }

  private key(event: KeyboardEvent): void {
    const target = event.target as HTMLElement;
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName) || this.help.open) return;
    const { frame } = this.scene.layout;
    const centre = this.pointer && this.pointer.x >= frame.left ? frame.time(this.pointer.x) : (this.view.from + this.view.to) / 2;
    const lanes = (by: number) => {
      this.scrollLanes(by);
      this.changed();
    };
    const actions: Record<string, () => void> = {
      w: () => this.zoom(0.8, centre), s: () => this.zoom(1.25, centre), a: () => this.pan(-0.12), d: () => this.pan(0.12),
      '+': () => this.zoom(0.8, centre), '-': () => this.zoom(1.25, centre),
      ArrowLeft: () => this.pan(-0.06), ArrowRight: () => this.pan(0.06), ArrowUp: () => lanes(-ROW * 2), ArrowDown: () => lanes(ROW * 2),
      f: () => this.fit(false), F: () => this.fit(true), t: () => this.nextTheme(), n: () => this.nextFound(1), p: () => this.nextFound(-1),
      '/': () => this.searchInput.select(), '?': () => this.help.showModal(),
      z: () => this.view.range && this.setWindow(...this.view.range),
      Escape: () => {
        this.clearRange();
        void this.select(undefined, false);
      },
    };
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }
}
