// The whole picture: where memory, lanes and addresses stand, and what is drawn in each.

import { Ink, STATISTICS, Statistic, Step } from './data/meta';
import { RunData } from './data/run';
import { Box, Frame } from './draw/frame';
import { drawLanes, ROW, Row, rowsOf } from './draw/lanes';
import { drawMap, drawMapAxis, MapStyle } from './draw/map';
import { drawLine, drawMemoryAxis, drawStack, memoryPixels, MemoryPixels } from './draw/memory';
import { Surface } from './draw/surface';
import { bytes, tickText, ticks } from './format';
import { View } from './view';

const LEFT = 190;
const RIGHT = 14;
const MARKS = 20; // above the memory chart: names of steps
const AXIS = 24;
const LEAST_MEMORY = 110;

/** Of two runs: the first, the second. */
export const RUN_COLOURS = ['#0072b2', '#d55e00', '#009e73', '#cc79a7'];

export interface Layout {
  width: number;
  height: number;
  frame: Frame;
  memory?: Box;
  lanes?: Box;
  map?: Box;
  axis: number; // y of the line of the time axis
  rows: Row[];
}

export class Scene {
  layout!: Layout;
  pixels: MemoryPixels[] = []; // by run, as last drawn

  constructor(
    readonly runs: RunData[],
    readonly view: View,
    readonly ink: () => Ink,
  ) {}

  get several(): boolean {
    return this.runs.length > 1;
  }
  hidden = (key: string) => this.view.hidden.has(key);

  /** The highest value of any statistic in any run: the memory axis does not jump while panning. */
  get top(): number {
    const peaks = this.runs.flatMap((run) => Object.values(run.meta.memory?.peaks ?? {}).map((peak) => peak.bytes));
    return Math.max(1, ...peaks) * 1.06;
  }
  get stacking(): string {
    const { stacking } = this.view;
    return this.runs.some((run) => run.stacking(stacking)) ? stacking : '';
  }

  arrange(width: number, height: number): Layout {
    const { sections } = this.view;
    const memory = sections.memory && this.runs.some((run) => run.meta.memory);
    const map = sections.map && this.runs[0].meta.blocks !== undefined;
    const rows = sections.lanes
      ? this.runs.flatMap((run, i) => rowsOf(run, i, this.several, this.view.unfolded))
      : [];
    const lanes = rows.length > 0;
    const frame = new Frame(this.view.from, this.view.to, LEFT, Math.max(width - LEFT - RIGHT, 50));
    const room = height - MARKS - AXIS - 8;
    const least = memory ? LEAST_MEMORY : 0;
    const mapHeight = !map ? 0 : !memory && !lanes ? room : Math.max(90, Math.floor(room * 0.24));
    const lanesHeight = !lanes ? 0 : Math.max(Math.min(rows.length * ROW, room - mapHeight - least - 16, memory || map ? room * 0.46 : room), ROW * 2);
    const memoryHeight = memory ? room - mapHeight - lanesHeight - (map ? 12 : 0) - (lanes ? 10 : 0) : 0;
    const box = (y: number, size: number): Box => ({ x: LEFT, y, width: frame.width, height: size });
    const lanesTop = MARKS + memoryHeight + (memory ? 10 : 0);
    const mapTop = lanesTop + lanesHeight + (lanes ? 12 : 0);
    this.layout = {
      width, height, frame, rows,
      memory: memory ? box(MARKS, memoryHeight) : undefined,
      lanes: lanes ? box(lanesTop, lanesHeight) : undefined,
      map: map ? box(mapTop, mapHeight) : undefined,
      axis: map ? mapTop + mapHeight : lanes ? lanesTop + lanesHeight : MARKS + memoryHeight,
    };
    return this.layout;
  }

  mapStyle(): MapStyle {
    const run = this.runs[0];
    const { categories, units, streams } = run.meta;
    const mode = this.stacking === '' || this.stacking === 'gap' ? 'category' : (this.stacking as MapStyle['by']);
    const { components = [], rest: restAt } = run.stacking(mode) ?? {};
    const colours = components.map((of, i) => (this.hidden(`${mode}:${i}`) ? undefined : of.colour));
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

  draw(surface: Surface, width: number, height: number): void {
    const layout = this.arrange(width, height);
    const ink = this.ink();
    surface.rect(0, 0, width, height, ink.paper);
    this.drawTimeGrid(surface, layout, ink);
    if (layout.memory) this.drawMemory(surface, layout.memory, layout.frame, ink);
    if (layout.lanes)
      drawLanes(surface, this.runs, layout.rows, layout.frame, layout.lanes, this.view.scroll, { ink, hidden: this.hidden });
    if (layout.map) {
      const style = this.mapStyle();
      drawMap(surface, this.runs[0], layout.frame, layout.map, style);
      drawMapAxis(surface, layout.map, style);
      surface.text(12, layout.map.y + 12, 'addresses', { fill: ink.text, size: 11.5 });
    }
    this.drawSteps(surface, layout, ink);
    if (layout.memory) this.drawMarks(surface, layout.memory, layout.frame, ink);
  }

  private drawTimeGrid(surface: Surface, layout: Layout, ink: Ink): void {
    const { frame, axis } = layout;
    const from = frame.from / 1e6, to = frame.to / 1e6;
    const marks = ticks(from, to, Math.max(2, Math.floor(frame.width / 95)));
    const step = marks.length > 1 ? marks[1] - marks[0] : to - from;
    surface.path([frame.left, axis + 0.5, frame.left + frame.width, axis + 0.5], 4, ink.faint, 1);
    for (const tick of marks) {
      const x = frame.x(tick * 1e6);
      surface.path([x, MARKS, x, axis], 4, ink.grid, 1);
      const text = tickText(tick, step);
      const over = x + surface.textWidth(text, 11) / 2 > layout.width - 4;
      surface.text(over ? layout.width - 4 : x, axis + 15, text, { fill: ink.faint, size: 11, align: over ? 'right' : 'center' });
    }
    surface.text(12, axis + 15, 'ms from the step’s begin', { fill: ink.faint, size: 11 });
  }

  private drawMemory(surface: Surface, box: Box, frame: Frame, ink: Ink): void {
    const top = this.top;
    drawMemoryAxis(surface, box, ink, top);
    surface.text(12, box.y + 12, 'memory', { fill: ink.text, size: 11.5 });
    surface.clip(box.x, box.y - 1, box.width, box.height + 1);
    const width = Math.max(1, Math.floor(box.width));
    const style = { ink, top, hidden: this.hidden };
    this.pixels = this.runs.map((run) =>
      run.meta.memory ? memoryPixels(run, this.several ? '' : this.stacking, frame, width) : { parts: [] });
    this.runs.forEach((run, i) => {
      if (!run.meta.memory) return;
      const { statistics, parts } = this.pixels[i];
      if (parts.length) drawStack(surface, run, this.stacking, this.pixels[i], box, style);
      for (const statistic of STATISTICS) {
        if (!statistics || this.hidden(`line:${statistic}`) || this.hidden(`run:${i}`)) continue;
        if (this.several && (statistic === 'active' || statistic === 'requested')) continue;
        drawLine(surface, statistic, statistics[statistic], box, style, this.several ? RUN_COLOURS[i % RUN_COLOURS.length] : undefined);
      }
    });
    surface.unclip();
  }

  private steps(): { step: Step; run: number }[] {
    return this.runs.flatMap((run, i) => run.meta.steps.map((step) => ({ step, run: i })));
  }

  private drawSteps(surface: Surface, layout: Layout, ink: Ink): void {
    const { frame } = layout;
    let room = frame.left;
    for (const { step, run } of this.steps()) {
      if (step.start < frame.from || step.start > frame.to) continue;
      const x = frame.x(step.start);
      const box = step.memory ? layout.memory : layout.lanes;
      const both = step.memory && step.lanes;
      const top = (box ?? layout.lanes ?? layout.memory ?? layout.map)!;
      const bottom = both ? layout.axis : step.memory ? (layout.memory?.y ?? 0) + (layout.memory?.height ?? 0) : top.y + top.height;
      surface.path([x, top.y, x, bottom], 4, ink.faint, 1.2, [7, 3]);
      if (!step.memory && layout.memory) continue;
      const text = `${this.several ? `${'AB'[run] ?? run + 1}: ` : ''}step ${step.index}${step.retries ? `, ${step.retries} retries` : ''}`;
      const size = surface.textWidth(text, 11);
      if (x + 3 < room || x + size + 6 > frame.left + frame.width) continue;
      surface.text(x + 3, MARKS - 6, text, { fill: ink.text, size: 11 });
      room = x + size + 14;
    }
    for (const run of this.runs)
      for (const phase of run.meta.phases) {
        if (phase.on !== 'memory' || this.several || !layout.memory) continue;
        const x0 = frame.x(phase.start), x1 = frame.x(phase.end);
        if (x1 < frame.left || x0 > frame.left + frame.width) continue;
        const from = Math.max(x0, frame.left), to = Math.min(x1, frame.left + frame.width);
        if (x0 >= frame.left) surface.path([x0, layout.memory.y, x0, layout.memory.y + layout.memory.height], 4, ink.faint, 0.5, [2, 4]);
        if (surface.textWidth(phase.name, 10.5) < to - from - 8)
          surface.text((from + to) / 2, layout.memory.y + 11, phase.name, { fill: ink.text, size: 10.5, align: 'center', halo: ink.paper });
      }
  }

  private drawMarks(surface: Surface, box: Box, frame: Frame, ink: Ink): void {
    const top = this.top;
    for (const run of this.runs) {
      let last = -Infinity;
      for (const mark of run.meta.marks ?? []) {
        if (mark.time < frame.from || mark.time > frame.to) continue;
        const x = frame.x(mark.time);
        if (mark.kind !== 'oom' && x - last < 1) continue;
        last = x;
        surface.path([x, box.y, x, box.y + box.height], 4, ink.alarm, mark.kind === 'released' ? 1 : 2, mark.kind === 'released' ? [1, 4] : []);
        if (mark.kind !== 'released')
          surface.text(x + 4, box.y + 26, mark.kind === 'oom' ? 'out of memory' : 'retry', { fill: ink.alarm, size: 11, bold: true, halo: ink.paper });
      }
    }
    const shown: { x: number; y: number }[] = [];
    this.runs.forEach((run, i) => {
      for (const statistic of STATISTICS) this.drawPeak(surface, run, i, statistic, box, frame, ink, top, shown);
    });
  }

  /** The peak of the step in view (or of the whole run), where it was first reached. */
  private drawPeak(surface: Surface, run: RunData, index: number, statistic: Statistic, box: Box, frame: Frame, ink: Ink,
                   top: number, shown: { x: number; y: number }[]): void {
    if (this.hidden(`line:${statistic}`) || (this.several && statistic !== 'reserved' && statistic !== 'allocated')) return;
    const steps = run.meta.steps.filter((step) => step.memory && step.start >= frame.from - 1 && step.start < frame.to);
    const peak = (steps.length === 1 ? steps[0].peaks : run.meta.memory?.peaks)?.[statistic];
    if (!peak || peak.time < frame.from || peak.time > frame.to) return;
    const x = frame.x(peak.time);
    const y = box.y + box.height - (peak.bytes / top) * box.height;
    const colour = this.several ? RUN_COLOURS[index % RUN_COLOURS.length] : ink[statistic];
    surface.area([x, y, x - 4, y - 7, x + 4, y - 7], 6, colour);
    const text = `${this.several ? `${'AB'[index] ?? index + 1}: ` : ''}${statistic} peak ${bytes(peak.bytes)}`;
    const right = x + 8 + surface.textWidth(text, 11) > frame.left + frame.width;
    // Below the line where the names of phases stand above it.
    const textY = y < box.y + 28 ? y + 14 : y - 3;
    if (shown.some((of) => Math.abs(of.y - textY) < 13 && Math.abs(of.x - x) < 190)) return;
    surface.text(right ? x - 8 : x + 8, textY, text, { fill: ink.text, size: 11, align: right ? 'right' : 'left', halo: ink.paper });
    shown.push({ x, y: textY });
  }

  /** The statistics under a pixel column of the memory chart, of one run. */
  statisticsAt(run: number, x: number): Record<Statistic, number> | undefined {
    const column = Math.floor(x - this.layout.frame.left);
    const of = this.pixels[run]?.statistics;
    if (!of || Number.isNaN(of.allocated.most[column] ?? NaN)) return undefined;
    return Object.fromEntries(STATISTICS.map((name) => [name, of[name].most[column]])) as Record<Statistic, number>;
  }

  /** The component of the stack at a point, and its bytes there. */
  componentAt(x: number, y: number): { index: number; title: string; bytes: number; colour: string } | undefined {
    const { memory: box, frame } = this.layout;
    const column = Math.floor(x - frame.left);
    const components = this.runs[0].stacking(this.stacking)?.components;
    const parts = this.pixels[0]?.parts;
    if (!box || !components || !parts?.length || this.several) return undefined;
    const value = ((box.y + box.height - y) / box.height) * this.top;
    let sum = 0;
    for (let i = 0; i < components.length; i++) {
      if (this.hidden(`${this.stacking}:${i}`)) continue;
      const size = parts[i][column];
      if (Number.isNaN(size)) return undefined;
      if (value >= sum && value < sum + size) return { index: i, ...components[i], bytes: size };
      sum += size;
    }
    return undefined;
  }
}
