// What is marked over the charts: begins of steps, phases, peaks, and memory that was given back or could not be had.

import { Ink, Phase, Statistic, STATISTICS, Step } from '../data/meta';
import { RunData } from '../data/run';
import { bytes } from '../format';
import { Layout, Pane } from '../layout';
import { Box, Frame } from './frame';
import { fit } from './lanes';
import { Surface } from './surface';

/** What the marks need to know of the picture. */
export interface MarkStyle {
  ink: Ink;
  top: number; // bytes at the upper edge of a memory chart
  several: boolean;
  hidden: (key: string) => boolean;
  colour: (run: number) => string;
}

/** The order in which peaks take their places. */
const BY_WEIGHT: Statistic[] = ['reserved', ...STATISTICS.filter((one) => one !== 'reserved')];

export const letter = (run: number): string => 'AB'[run] ?? String(run + 1);

/** "step 1: forward", or as much of it as fits. */
export function phaseText(surface: Surface, phase: Phase, more: string, width: number): string {
  const texts = [`${phase.step >= 0 ? `step ${phase.step}: ` : ''}${phase.name}${more}`, `${phase.name}${more}`, phase.name];
  return texts.find((text) => surface.textWidth(text, 11) <= width) ?? fit(surface, phase.name, 11, width);
}

export function drawMemoryPhases(surface: Surface, run: RunData, box: Box, chart: Box, frame: Frame, ink: Ink): void {
  surface.text(12, box.y + 12, 'memory: phases', { fill: ink.text, size: 11.5 });
  for (const phase of run.meta.phases) {
    if (phase.on !== 'memory') continue;
    const x0 = Math.max(frame.x(phase.start), box.x), x1 = Math.min(frame.x(phase.end), box.x + box.width);
    if (x1 <= box.x || x0 >= box.x + box.width) continue;
    surface.rect(x0, box.y, Math.max(x1 - x0, 0.6), box.height, ink.band);
    surface.frame(x0, box.y, Math.max(x1 - x0, 0.6), box.height, ink.faint, 0.6);
    if (x0 > box.x) surface.path([x0, chart.y, x0, chart.y + chart.height], 4, ink.faint, 0.5, [2, 4]);
    const text = phaseText(surface, phase, '', x1 - x0 - 8);
    if (text) surface.text((x0 + x1) / 2, box.y + 11, text, { fill: ink.text, size: 11, align: 'center' });
  }
}

interface Begin {
  step: Step;
  run: number;
  x: number;
}

/** Dashed lines where steps begin; their names stand above the charts. */
export function drawSteps(surface: Surface, runs: RunData[], layout: Layout, style: MarkStyle): void {
  const { frame, lanes, memory } = layout;
  const { ink } = style;
  const begins = runs.flatMap((run, i) => run.meta.steps.map((step): Begin =>
    ({ step, run: i, x: step.memory ? frame.over(run.clock).x(step.start) : frame.x(step.start) })));
  let room = frame.left;
  for (const { step, run, x } of begins.sort((a, b) => a.x - b.x)) {
    if (x < frame.left || x > frame.left + frame.width) continue;
    const line = (box: Box) => surface.path([x, box.y, x, box.y + box.height], 4, ink.faint, 1.2, [7, 3]);
    const together = step.memory && step.lanes && runs[run].clock.same;
    if (together) surface.path([x, layout.top, x, layout.axis], 4, ink.faint, 1.2, [7, 3]);
    else if (step.memory) for (const { box, runs: of } of [...memory, ...layout.map]) of.includes(run) && line(box);
    if (!together && step.lanes && lanes) line(lanes);
    if (!step.memory && memory.length) continue;
    const text = `${style.several ? `${letter(run)}: ` : ''}step ${step.index}${step.retries ? `, ${step.retries} retries` : ''}`;
    const size = surface.textWidth(text, 11);
    if (x + 3 < room || x + size + 6 > frame.left + frame.width) continue;
    surface.text(x + 3, layout.top - 6, text, { fill: ink.text, size: 11 });
    room = x + size + 14;
  }
}

function drawReleases(surface: Surface, run: RunData, box: Box, frame: Frame, ink: Ink): void {
  let last = -Infinity;
  for (const mark of run.meta.marks ?? []) {
    if (mark.time < frame.from || mark.time > frame.to) continue;
    const x = frame.x(mark.time);
    if (mark.kind !== 'oom' && x - last < 1) continue;
    last = x;
    surface.path([x, box.y, x, box.y + box.height], 4, ink.alarm, mark.kind === 'released' ? 1 : 2, mark.kind === 'released' ? [1, 4] : []);
    if (mark.kind !== 'released')
      // Below the limit's label, which is near the upper edge.
      surface.text(x + 4, box.y + 38, mark.kind === 'oom' ? 'out of memory' : 'retry', { fill: ink.alarm, size: 11, bold: true, halo: ink.paper });
  }
}

/** Steps with memory that begin in view: of one alone its peaks are marked, else the whole run's. */
function stepsIn(run: RunData, frame: Frame): Step[] {
  return run.meta.steps.filter((step) => step.memory && step.start >= frame.from - 1 && step.start < frame.to);
}

/** Marks of one memory chart: what was given back, and the peaks where they were first reached. */
export function drawMemoryMarks(surface: Surface, runs: RunData[], pane: Pane, axis: Frame, style: MarkStyle): void {
  const { box } = pane;
  const { ink } = style;
  const shown: { from: number; to: number; y: number }[] = []; // labels, which no other lies over
  const peak = (run: number, frame: Frame, statistic: Statistic) => {
    const steps = stepsIn(runs[run], frame);
    const of = (steps.length === 1 ? steps[0].peaks : runs[run].meta.memory?.peaks)?.[statistic];
    if (!of || of.time < frame.from || of.time > frame.to) return;
    const x = frame.x(of.time);
    const y = box.y + box.height - (of.bytes / style.top) * box.height;
    surface.area([x, y, x - 4, y - 7, x + 4, y - 7], 6, pane.runs.length > 1 ? style.colour(run) : ink[statistic]);
    // Segments stay: what is reserved is often at the step's peak when the step begins.
    const since = steps.length === 1 && of.time <= steps[0].start ? ', from the begin on' : '';
    const plain = `${pane.runs.length > 1 ? `${letter(run)}: ` : ''}${statistic} peak ${bytes(of.bytes)}`;
    const text = surface.textWidth(plain + since, 11) + 8 > axis.width ? plain : plain + since;
    const width = surface.textWidth(text, 11);
    const right = x + 8 + width > axis.left + axis.width;
    const from = right ? Math.max(x - 8 - width, axis.left) : x + 8;
    // Of the two that matter most another place is looked for; the others are left out where there is no room.
    const places = statistic === 'reserved' || statistic === 'allocated' ? [y - 3, y + 14, y + 27, y - 16] : [y - 3];
    const place = places.find((at) => at >= box.y + 9 && at <= box.y + box.height &&
      !shown.some((other) => Math.abs(other.y - at) < 13 && other.from < from + width && from < other.to));
    if (place === undefined) return;
    surface.text(from, place, text, { fill: ink.text, size: 11, halo: ink.paper });
    shown.push({ from, to: from + width, y: place });
  };
  for (const run of pane.runs) {
    const frame = axis.over(runs[run].clock);
    drawReleases(surface, runs[run], box, frame, ink);
    for (const statistic of BY_WEIGHT)
      if (!style.hidden(`line:${statistic}`) && (!style.several || statistic === 'reserved' || statistic === 'allocated')) peak(run, frame, statistic);
  }
}
