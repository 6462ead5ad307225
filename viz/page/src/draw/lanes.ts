// The lanes: what ran when, on the host's threads and the device's streams.

import { upperBound } from '../data/upper_bound';
import { Ink, Phase } from '../data/meta';
import { LinkSeries } from '../data/links';
import { countsEvents, duration } from '../format';
import { RunData } from '../data/run';
import { Box, Frame } from './frame';
import { phaseText } from './steps';
import { Surface } from './surface';
import { drawLink } from './links';
import { drawWaits } from './waits';

export const ROW = 19;

/** One row of the lanes on the screen. */
export interface Row {
  run: number;
  kind: 'phases' | 'track' | 'waits' | 'link';
  title: string; // empty: a further row of the lane above
  lane: number; // -1: phases
  track: number;
  link?: number; // of RunData.links
  on: Phase['on'];
  folds: number; // rows of the lane when it is unfolded
}

/** A bar as it is drawn: an op, or several that are too short to be told apart. */
export interface Bar {
  start: number;
  end: number;
  opClass: number;
  count: number;
  id: number;
  busy: number;
}

function rowsOf(run: RunData, index: number, several: boolean, unfolded: Set<string>): Row[] {
  const rows: Row[] = [];
  const name = (text: string) => (several ? `${run.label.split(':')[0]} ${text}` : text);
  const phases = (on: Phase['on'], title: string) => {
    if (run.meta.phases.some((phase) => phase.on === on))
      rows.push({ run: index, kind: 'phases', title: name(title), lane: -1, track: -1, on, folds: 1 });
  };
  phases('host', 'host: phases');
  let device = false;
  let linked = false;
  // Below the streams, above other ranks' lanes.
  const links = () => {
    if (!linked) run.links.forEach((link, i) => rows.push({ run: index, kind: 'link', title: name(linkTitle(link)), lane: -1, track: -1, link: i, on: 'device', folds: 1 }));
    linked = true;
  };
  run.meta.lanes.forEach((lane, i) => {
    if (lane.source === 'rank') links();
    if (lane.source === 'device' && !device) {
      device = true;
      phases('device', 'GPU: phases');
    }
    const tracks = run.meta.tracks.map((track, t) => ({ track, t })).filter(({ track }) => track.lane === i);
    const open = unfolded.has(`${index}:${i}`);
    (open ? tracks : tracks.slice(0, 1)).forEach(({ t }, depth) =>
      rows.push({
        run: index, kind: 'track', title: depth === 0 ? name(lane.name) : '', lane: i, track: t,
        on: lane.source === 'device' ? 'device' : 'host', folds: tracks.length,
      }),
    );
    // Below the first stream, which is the compute stream: why it does not compute.
    if (lane.source === 'device' && run.waits.length && !rows.some((row) => row.run === index && row.kind === 'waits'))
      rows.push({ run: index, kind: 'waits', title: name('waits, by cause'), lane: -1, track: -1, on: 'device', folds: 1 });
  });
  links();
  return rows;
}

/** With what it carries: the unit of its lane, and its upper edge. */
function linkTitle({ of }: LinkSeries): string {
  return `${of.title} (${of.most_gb_s.toFixed(of.most_gb_s < 100 ? 1 : 0)} GB/s)`;
}

/** All rows, run by run; of several runs what is compared stands first: the waits of each, under its phases on the GPU. */
export function rowsOfAll(runs: RunData[], unfolded: Set<string>): Row[] {
  const rows = runs.flatMap((run, i) => rowsOf(run, i, runs.length > 1, unfolded));
  if (runs.length === 1) return rows;
  const first = (row: Row) => row.kind === 'waits' || (row.kind === 'phases' && row.on === 'device' && runs[row.run].waits.length > 0);
  return [...rows.filter(first), ...rows.filter((row) => !first(row))];
}

/** Calls `visit` for the bars of a track in the window; answers false while tiles are on their way. */
export function eachBar(run: RunData, track: number, frame: Frame, visit: (bar: Bar) => void): void {
  const { levels } = run.meta.tracks[track];
  // Half a pixel: a bar of a level is then at least about that wide, or stands for what is.
  const { tiles } = run.window('track', `track/${track}`, levels, frame.from, frame.to, frame.nsPerPixel);
  const bar: Bar = { start: 0, end: 0, opClass: 0, count: 1, id: 0, busy: 0 };
  for (const tile of tiles) {
    const { start, length, class: opClass, first_op: id, count, busy } = tile;
    for (let i = Math.max(upperBound(start, frame.from) - 1, 0); i < start.length && start[i] <= frame.to; i++) {
      bar.start = start[i];
      bar.end = start[i] + length[i];
      if (bar.end < frame.from) continue;
      bar.opClass = opClass[i];
      bar.count = count ? count[i] : 1;
      bar.id = id[i];
      bar.busy = busy ? busy[i] : length[i];
      visit(bar);
    }
  }
}

export interface LaneStyle {
  ink: Ink;
  hidden: (key: string) => boolean;
}

const LABEL_WIDTH = 34;

function drawTrack(surface: Surface, run: RunData, row: Row, frame: Frame, y: number, style: LaneStyle): void {
  const { classes } = run.meta;
  const inset = 2;
  const height = ROW - 2 * inset;
  const left = frame.left - 1;
  const right = frame.left + frame.width + 1;
  // Neighbours of one class that touch on the screen are one rectangle.
  let from = 0, to = -1, colour = -1;
  const flush = () => {
    if (to > from) surface.rect(from, y + inset, to - from, height, classes[colour].colour);
  };
  const labels: { x: number; width: number; id: number }[] = [];
  eachBar(run, row.track, frame, (bar) => {
    if (style.hidden(`class:${bar.opClass}`)) return;
    const x0 = Math.max(frame.x(bar.start), left);
    const x1 = Math.min(Math.max(frame.x(bar.end), x0 + 0.6), right);
    if (bar.opClass === colour && x0 <= to + 0.15 && x1 - x0 < 2) {
      to = Math.max(to, x1);
      return;
    }
    flush();
    // A sliver of paper between neighbours that are wide enough to be told apart.
    [from, to, colour] = [x0, x1 - x0 > 3 ? x1 - 0.5 : x1, bar.opClass];
    if (bar.count === 1 && x1 - x0 > LABEL_WIDTH && labels.length < 300) labels.push({ x: x0, width: x1 - x0, id: bar.id });
  });
  flush();
  for (const label of labels) {
    const text = barLabel(run, row, label.id);
    const fitting = fit(surface, text, 10, label.width - 6);
    if (fitting) surface.text(label.x + label.width / 2, y + ROW / 2 + 3.5, fitting, { fill: '#101010', size: 10, align: 'center' });
  }
}

function barLabel(run: RunData, row: Row, id: number): string {
  const { source } = run.meta.lanes[row.lane];
  if (source === 'host') return run.name(run.hostOpNow(id)?.name ?? -1);
  if (source === 'rank') return run.name(run.rankOpNow(id)?.name ?? -1);
  const op = run.deviceOpNow(id);
  if (!op) return '';
  return op.collective >= 0 && op.unit >= 0 ? run.name(op.unit) : run.name(op.name);
}

/** As much of a text as fits; empty where that is next to nothing. */
export function fit(surface: Surface, text: string, size: number, width: number): string {
  if (!text || width < 18) return '';
  if (surface.textWidth(text, size) <= width) return text;
  let letters = Math.floor((width / surface.textWidth(text, size)) * text.length) - 1;
  while (letters >= 4 && surface.textWidth(`${text.slice(0, letters)}…`, size) > width) letters--;
  return letters >= 4 ? `${text.slice(0, letters)}…` : '';
}

function drawPhases(surface: Surface, run: RunData, row: Row, frame: Frame, y: number, ink: Ink): void {
  for (const phase of run.meta.phases) {
    if (phase.on !== row.on || phase.end < frame.from || phase.start > frame.to) continue;
    const x0 = Math.max(frame.x(phase.start), frame.left - 2);
    const x1 = Math.min(frame.x(phase.end), frame.left + frame.width + 2);
    surface.rect(x0, y + 3, Math.max(x1 - x0, 0.6), ROW - 6, ink.band);
    surface.frame(x0, y + 3, Math.max(x1 - x0, 0.6), ROW - 6, ink.faint, 0.6);
    const shown = phaseText(surface, phase, ` ${countsEvents() ? duration(phase.end - phase.start) : `${((phase.end - phase.start) / 1e6).toFixed(1)} ms`}`, x1 - x0 - 6);
    if (shown) surface.text((x0 + x1) / 2, y + ROW / 2 + 4, shown, { fill: ink.text, size: 11, align: 'center' });
  }
}

/** Rows from `box`'s top, moved up by `scroll`. */
export function drawLanes(surface: Surface, runs: RunData[], rows: Row[], frame: Frame, box: Box, scroll: number,
                          style: LaneStyle): void {
  rows.forEach((row, i) => {
    const y = box.y + i * ROW - scroll;
    if (y + ROW <= box.y || y >= box.y + box.height) return;
    surface.path([frame.left, y + ROW - 0.5, frame.left + frame.width, y + ROW - 0.5], 4, style.ink.grid, 1);
    surface.clip(frame.left, Math.max(y, box.y), frame.width, Math.min(ROW, box.y + box.height - y));
    if (row.kind === 'phases') drawPhases(surface, runs[row.run], row, frame, y, style.ink);
    else if (row.kind === 'link') drawLink(surface, runs[row.run].links[row.link!], frame, y, style.ink);
    else if (row.kind === 'waits') drawWaits(surface, runs[row.run], frame, y, style.hidden);
    else drawTrack(surface, runs[row.run], row, frame, y, style);
    surface.unclip();
    if (!row.title || y + ROW / 2 - 6 < box.y || y + ROW / 2 + 4 > box.y + box.height) return;
    const more = row.folds > 1 ? ` (${row.folds})` : '';
    const text = fit(surface, row.title + more, 11.5, frame.left - 16) || row.title;
    surface.text(frame.left - 8, y + ROW / 2 + 4, text, { fill: style.ink.text, size: 11.5, align: 'right' });
  });
  drawScroll(surface, rows.length * ROW, box, scroll, style.ink);
}

/** Where lanes go on above or below what is shown. */
function drawScroll(surface: Surface, length: number, box: Box, scroll: number, ink: Ink): void {
  if (length <= box.height + 1) return;
  const x = box.x + box.width + 3;
  surface.rect(x, box.y, 5, box.height, ink.grid);
  surface.rect(x, box.y + (scroll / length) * box.height, 5, (box.height / length) * box.height, ink.faint);
}

/** The bar under a time, where one is within `slack` ns. */
export function barAt(run: RunData, track: number, frame: Frame, time: number, slack: number): Bar | undefined {
  let best: Bar | undefined;
  let distance = slack;
  const near = new Frame(time - slack - frame.nsPerPixel, time + slack + frame.nsPerPixel, frame.left,
                         (2 * slack) / frame.nsPerPixel + 2);
  eachBar(run, track, near, (bar) => {
    const away = time < bar.start ? bar.start - time : time > bar.end ? time - bar.end : 0;
    if (away <= distance) {
      distance = away;
      best = { ...bar };
    }
  });
  return best;
}
