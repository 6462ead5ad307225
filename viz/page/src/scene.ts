// The whole picture: memory, lanes and addresses, and what is drawn in each.

import { Ink, STATISTICS, Statistic } from './data/meta';
import { RunData } from './data/run';
import { Frame, inside } from './draw/frame';
import { drawLanes, fit } from './draw/lanes';
import { drawMap, drawMapAxis, MapStyle } from './draw/map';
import { drawRanks } from './draw/ranks';
import { drawLine, drawMemoryAxis, drawStack, memoryPixels, MemoryPixels, StackPart } from './draw/memory';
import { drawMemoryMarks, drawMemoryPhases, drawSteps, letter, MarkStyle } from './draw/steps';
import { Surface } from './draw/surface';
import { bytes, countsEvents, tickText, ticks } from './format';
import { arrange, Layout, Pane } from './layout';
import { View } from './view';

/** Of two runs: the first, the second. */
export const RUN_COLOURS = ['#0072b2', '#d55e00', '#009e73', '#cc79a7'];

const NAMES = 126; // pixels beside the ticks of the memory axis

/** The limit is on the axis without being asked for where the peak is within this share of it. */
const NEAR = 0.4;

/** What the caching allocator may take. */
export interface Capacity {
  bytes: number;
  of: string; // the machine
}

export class Scene {
  layout!: Layout;
  pixels: MemoryPixels[] = []; // by run, as last drawn
  capacities: (Capacity | undefined)[] = []; // by run, where known

  constructor(
    readonly runs: RunData[],
    readonly view: View,
    readonly ink: () => Ink,
  ) {}

  get several(): boolean {
    return this.runs.length > 1;
  }
  hidden = (key: string) => this.view.hidden.has(key);

  /** The highest value of any statistic in any run. */
  private get peak(): number {
    return Math.max(1, ...this.runs.flatMap((run) => Object.values(run.meta.memory?.peaks ?? {}).map((peak) => peak.bytes)));
  }
  get capacity(): number | undefined {
    const known = this.capacities.flatMap((of) => (of ? [of.bytes] : []));
    return known.length ? Math.max(...known) : undefined;
  }
  /** Whether the memory axis goes up to the limit. */
  get toLimit(): boolean {
    const { capacity } = this;
    return capacity !== undefined && (this.view.limit ?? this.peak > NEAR * capacity);
  }
  /** Bytes at the upper edge of the memory charts: they do not jump while panning. */
  get top(): number {
    return Math.max(this.peak, this.toLimit ? this.capacity! : 0) * 1.06;
  }
  get stacking(): string {
    const { stacking } = this.view;
    return this.runs.some((run) => run.stacking(stacking)) ? stacking : '';
  }

  arrange(width: number, height: number): Layout {
    this.layout = arrange(this.runs, this.view, this.several && this.stacking !== '', width, height);
    return this.layout;
  }

  /** A run's components: of the second run in the colours, and hidden with those, that the first one's have. */
  components(index: number): StackPart[] {
    const own = this.runs[index].stacking(this.stacking)?.components ?? [];
    const first = this.runs[0].stacking(this.stacking)?.components ?? [];
    return own.map((of, i) => {
      const at = index === 0 ? i : first.findIndex((other) => other.title === of.title);
      const key = at < 0 ? `${this.stacking}:${index}:${i}` : `${this.stacking}:${at}`;
      return { title: of.title, colour: at < 0 ? of.colour : first[at].colour, key, hidden: this.hidden(key) };
    });
  }

  mapStyle(index: number): MapStyle {
    const run = this.runs[index];
    const { categories, units, streams } = run.meta;
    const mode = this.stacking === '' || this.stacking === 'gap' ? 'category' : (this.stacking as MapStyle['by']);
    const { rest: restAt } = run.stacking(mode) ?? {};
    const components = mode === this.stacking ? this.components(index) : (run.stacking(mode)?.components ?? []).map((of) => ({ ...of, hidden: false }));
    const colours = components.map((of) => (of.hidden ? undefined : of.colour));
    const byTitle = new Map(components.map((of, i) => [of.title, colours[i]]));
    const rest = restAt === undefined ? undefined : colours[restAt];
    // A title that no component has belongs to the smaller ones.
    const colour = (title: string) => (byTitle.has(title) ? byTitle.get(title) : rest);
    const ofCategories = categories.map((of) => (mode === 'category' ? colour(of.title) : of.colour));
    const ofStreams: (string | undefined)[] = [];
    for (const stream of streams) ofStreams[stream.id] = colour(stream.title);
    return {
      ink: this.ink(),
      from: this.view.mapFrom,
      to: this.view.mapTo,
      by: mode,
      colours: mode === 'category' ? ofCategories : mode === 'unit' ? units.map(colour) : mode === 'stream' ? ofStreams : colours,
      rest,
      categories: ofCategories,
    };
  }

  /** The run's own times over the pixels. */
  memoryFrame(run: number): Frame {
    return this.layout.frame.over(this.runs[run].clock);
  }
  memoryPane(x: number, y: number): Pane | undefined {
    return this.layout.memory.find(({ box }) => inside(box, x, y));
  }
  mapPane(x: number, y: number): Pane | undefined {
    return this.layout.map.find(({ box }) => inside(box, x, y));
  }

  rankPane(x: number, y: number): Pane | undefined {
    return this.layout.ranks.find(({ box }) => y >= box.y && y < box.y + box.height && x < box.x + box.width);
  }

  draw(surface: Surface, width: number, height: number): void {
    const layout = this.arrange(width, height);
    const ink = this.ink();
    surface.rect(0, 0, width, height, ink.paper);
    this.drawTimeGrid(surface, layout, ink);
    this.pixels = this.runs.map(() => ({ parts: [] }));
    const [first] = layout.memory;
    if (layout.phases && first) drawMemoryPhases(surface, this.runs[0], layout.phases, first.box, this.memoryFrame(0), ink);
    for (const pane of layout.memory) this.drawMemory(surface, pane, ink);
    for (const { box, runs } of layout.ranks)
      for (const run of runs)
        drawRanks(surface, this.runs[run].ranks!, layout.frame, box, { ink, dark: ink === this.runs[0].meta.ink.dark, name: this.several ? `${letter(run)}: ` : '', hidden: this.hidden });
    if (layout.lanes)
      drawLanes(surface, this.runs, layout.rows, layout.frame, layout.lanes, this.view.scroll, { ink, hidden: this.hidden });
    for (const { box, runs } of layout.map)
      for (const run of runs) {
        const style = this.mapStyle(run);
        drawMap(surface, this.runs[run], this.memoryFrame(run), box, style);
        drawMapAxis(surface, box, style);
        surface.text(12, box.y + 12, this.several ? `${letter(run)}: addresses` : 'addresses', { fill: ink.text, size: 11.5 });
      }
    const marks: MarkStyle = { ink, top: this.top, several: this.several, hidden: this.hidden, colour: (run) => this.colour(run) };
    drawSteps(surface, this.runs, layout, marks);
    for (const pane of layout.memory) {
      drawMemoryMarks(surface, this.runs, pane, layout.frame, marks);
      this.drawLimit(surface, pane, ink);
    }
  }

  private colour(run: number): string {
    return RUN_COLOURS[run % RUN_COLOURS.length];
  }

  private drawTimeGrid(surface: Surface, layout: Layout, ink: Ink): void {
    const { frame, axis, top } = layout;
    const unit = countsEvents() ? 1 : 1e6;
    const from = frame.from / unit, to = frame.to / unit;
    const marks = ticks(from, to, Math.max(2, Math.floor(frame.width / 95)));
    const step = marks.length > 1 ? marks[1] - marks[0] : to - from;
    surface.path([frame.left, axis + 0.5, frame.left + frame.width, axis + 0.5], 4, ink.faint, 1);
    for (const tick of marks) {
      const x = frame.x(tick * unit);
      surface.path([x, top, x, axis], 4, ink.grid, 1);
      const text = tickText(tick, step);
      const over = x + surface.textWidth(text, 11) / 2 > layout.width - 4;
      surface.text(over ? layout.width - 4 : x, axis + 15, text, { fill: ink.faint, size: 11, align: over ? 'right' : 'center' });
    }
    surface.text(12, axis + 15, countsEvents() ? 'events from the step’s begin' : 'ms from the step’s begin', { fill: ink.faint, size: 11 });
    if (!layout.note) return;
    const notes = this.runs.map((run, i) => (run.clockNote && this.several ? `${letter(i)}: ${run.clockNote}` : run.clockNote)).filter((note) => note !== '');
    let text = notes.join(' · ');
    while (text.length > 10 && surface.textWidth(text, 11) > layout.width - 24) text = `${text.slice(0, -2).trimEnd()}…`;
    surface.text(12, layout.note, text, { fill: ink.text, size: 11, bold: false });
  }

  /** One chart: the stack of its run, or the lines of several. */
  private drawMemory(surface: Surface, pane: Pane, ink: Ink): void {
    const { box } = pane;
    const together = pane.runs.length > 1;
    const style = { ink, top: this.top, hidden: this.hidden };
    drawMemoryAxis(surface, box, ink, style.top);
    surface.text(12, box.y + 12, this.several && !together ? `${letter(pane.runs[0])}: memory` : 'memory', { fill: ink.text, size: 11.5 });
    surface.clip(box.x, box.y - 1, box.width, box.height + 1);
    const width = Math.max(1, Math.floor(box.width));
    for (const run of pane.runs) {
      this.pixels[run] = memoryPixels(this.runs[run], together ? '' : this.stacking, this.memoryFrame(run), width);
      const { statistics, parts } = this.pixels[run];
      if (parts.length) drawStack(surface, this.components(run), this.pixels[run], box, style);
      for (const statistic of STATISTICS) {
        if (!statistics || this.hidden(`line:${statistic}`) || this.hidden(`run:${run}`)) continue;
        if (this.several && (statistic === 'active' || statistic === 'requested')) continue;
        drawLine(surface, statistic, statistics[statistic], box, style, together ? this.colour(run) : undefined);
      }
    }
    surface.unclip();
    if (this.several && !together)
      surface.text(12, box.y + 27, fit(surface, this.runs[pane.runs[0]].label, 11, NAMES), { fill: ink.faint, size: 11 });
  }

  /** What the allocator may take: a line where it is on the axis, else how far above it is. */
  private drawLimit(surface: Surface, pane: Pane, ink: Ink): void {
    const { box } = pane;
    const known = pane.runs.flatMap((run) => this.capacities[run] ?? []);
    const limits = known.filter((of, i) => known.findIndex((other) => other.bytes === of.bytes) === i);
    if (this.hidden('line:limit')) return;
    const right = box.x + box.width;
    limits.forEach((limit, i) => {
      const text = `limit ${bytes(limit.bytes)}${limit.of ? ` (${limit.of})` : ''}`;
      const y = box.y + box.height - (limit.bytes / this.top) * box.height;
      if (y >= box.y) {
        surface.path([box.x, y, right, y], 4, ink.alarm, 1.5, [12, 3, 2, 3]);
        // Peaks near it are mostly at the right: running out of memory ends the run.
        // Below the line where above it there are the phases.
        surface.text(box.x + 4, y - 13 < box.y ? y + 12 : y - 4, text, { fill: ink.alarm, size: 11, halo: ink.paper });
        return;
      }
      // Off the axis: beside it, where nothing is drawn over it.
      const below = box.y + (pane.runs.length === 1 && this.several ? 42 : 27) + 28 * i;
      const least = Math.max(...pane.runs.map((run) => this.runs[run].meta.memory?.peaks.reserved?.bytes ?? 0));
      surface.text(12, below, `↑ limit ${bytes(limit.bytes)}`, { fill: ink.alarm, size: 11 });
      surface.text(12, below + 14, `${bytes(limit.bytes - least)} above`, { fill: ink.faint, size: 11 });
    });
  }

  /** The statistics under a pixel column of the memory chart, of one run. */
  statisticsAt(run: number, x: number): Record<Statistic, number> | undefined {
    const column = Math.floor(x - this.layout.frame.left);
    const of = this.pixels[run]?.statistics;
    if (!of || Number.isNaN(of.allocated.most[column] ?? NaN)) return undefined;
    return Object.fromEntries(STATISTICS.map((name) => [name, of[name].most[column]])) as Record<Statistic, number>;
  }

  /** The component of the stack at a point, and its bytes there. */
  componentAt(x: number, y: number): { title: string; bytes: number; colour: string } | undefined {
    const pane = this.memoryPane(x, y);
    if (!pane || pane.runs.length > 1) return undefined;
    const column = Math.floor(x - this.layout.frame.left);
    const { parts } = this.pixels[pane.runs[0]];
    const value = ((pane.box.y + pane.box.height - y) / pane.box.height) * this.top;
    let sum = 0;
    for (const [i, part] of this.components(pane.runs[0]).entries()) {
      if (part.hidden || !parts[i]) continue;
      const size = parts[i][column];
      if (Number.isNaN(size)) return undefined;
      if (value >= sum && value < sum + size) return { ...part, bytes: size };
      sum += size;
    }
    return undefined;
  }
}

