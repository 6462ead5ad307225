// Where the charts stand on the stage: memory, lanes and addresses over one axis of time.

import { RunData } from './data/run';
import { Box, Frame } from './draw/frame';
import { ROW, Row, rowsOfAll } from './draw/lanes';
import { View } from './view';

const LEFT = 190;
const RIGHT = 14;
const LINE = 16; // of text above the charts
const AXIS = 24;
const PHASES = 17; // above a memory chart
const LEAST_MEMORY = 110;
const LEAST_MAP = 90;
const RANK_ROW = 13; // of the heat map, where there is room
const NAMED_ROW = 12; // of which each row has its name

/** A chart and the runs that it shows. */
export interface Pane {
  box: Box;
  runs: number[];
}

export interface Layout {
  width: number;
  height: number;
  frame: Frame;
  note: number; // y of the line that says how the clocks are laid over each other; 0: none
  top: number; // y of the charts' upper edge
  memory: Pane[];
  phases?: Box; // the memory's, above its chart
  ranks: Pane[]; // what every rank does, of each run that has several
  lanes?: Box;
  map: Pane[];
  axis: number; // y of the line of the time axis
  rows: Row[];
}

/** Charts of `count` panes below each other, `gap` pixels apart. */
function panes(runs: number[][], x: number, y: number, width: number, height: number, gap: number): Pane[] {
  const each = (height - gap * (runs.length - 1)) / Math.max(runs.length, 1);
  return runs.map((of, i) => ({ box: { x, y: y + i * (each + gap), width, height: each }, runs: of }));
}

/** `split`: each run's memory has a chart of its own. */
export function arrange(runs: RunData[], view: View, split: boolean, width: number, height: number): Layout {
  const all = runs.map((_, i) => i);
  const withMemory = view.sections.memory ? all.filter((i) => runs[i].meta.memory) : [];
  const memoryRuns = split ? withMemory.map((i) => [i]) : withMemory.length ? [withMemory] : [];
  const mapRuns = view.sections.map ? all.filter((i) => runs[i].meta.blocks).map((i) => [i]) : [];
  const rows = view.sections.lanes ? rowsOfAll(runs, view.unfolded) : [];
  const frame = new Frame(view.from, view.to, LEFT, Math.max(width - LEFT - RIGHT, 50));
  const note = memoryRuns.length && rows.length && runs.some((run) => run.clockNote) ? 13 : 0;
  const phases = memoryRuns.length && runs.length === 1 && runs[0].meta.phases.some((of) => of.on === 'memory') ? PHASES : 0;
  const top = 20 + (note ? LINE : 0);
  const rankRuns = view.sections.ranks ? all.filter((i) => runs[i].ranks) : [];
  const whole = height - top - phases - AXIS - 8;
  // A fifth of the height for each run; a few ranks whose names would not all fit there get more.
  const rankRows = Math.min(...rankRuns.map((i) => runs[i].ranks!.rows.length));
  const named = Math.min(rankRows * NAMED_ROW, (whole * 0.3) / rankRuns.length);
  const ranksHeight = rankRuns.length ? Math.floor(Math.min(rankRows * RANK_ROW, Math.max(whole * 0.2, named)) * rankRuns.length) : 0;
  const room = whole - (rankRuns.length ? ranksHeight + 10 : 0);
  const lanesGap = rows.length ? 10 : 0, mapGap = mapRuns.length ? 12 : 0;
  const least = memoryRuns.length * LEAST_MEMORY;
  const share = mapRuns.length > 1 ? 0.34 : 0.24;
  const mapHeight = !mapRuns.length ? 0 : !least && !rows.length ? room : Math.max(LEAST_MAP * mapRuns.length, Math.floor(room * share));
  const most = least || mapHeight ? room * (runs.length > 1 ? 0.34 : 0.46) : room;
  const lanesHeight = !rows.length ? 0 : Math.max(Math.min(rows.length * ROW, room - mapHeight - least - lanesGap - mapGap, most), ROW * 2);
  const memoryHeight = least ? room - mapHeight - lanesHeight - mapGap - lanesGap : 0;
  const ranksTop = top + phases + memoryHeight + (least && rankRuns.length ? 10 : 0);
  const lanesTop = ranksTop + (rankRuns.length ? ranksHeight : 0) + (least || rankRuns.length ? lanesGap : 0);
  const mapTop = lanesTop + lanesHeight + (rows.length ? mapGap : 0);
  const end = mapRuns.length ? mapTop + mapHeight : rows.length ? lanesTop + lanesHeight : ranksTop + (rankRuns.length ? ranksHeight : 0);
  return {
    width, height, frame, rows, note, top,
    memory: panes(memoryRuns, LEFT, top + phases, frame.width, memoryHeight, 8),
    phases: phases ? { x: LEFT, y: top, width: frame.width, height: phases - 2 } : undefined,
    ranks: panes(rankRuns.map((i) => [i]), LEFT, ranksTop, frame.width, ranksHeight, 8),
    lanes: rows.length ? { x: LEFT, y: lanesTop, width: frame.width, height: lanesHeight } : undefined,
    map: panes(mapRuns, LEFT, mapTop, frame.width, mapHeight, 8),
    axis: end,
  };
}
