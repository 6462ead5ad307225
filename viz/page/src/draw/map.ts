// The address map: every segment and block as a rectangle of time and addresses.

import { Ink, NEVER } from '../data/meta';
import { Block, RunData, blockOf } from '../data/run';
import { Columns } from '../data/tiles';
import { byteTicks, bytes } from '../format';
import { Box, Frame } from './frame';
import { Surface } from './surface';

export interface MapStyle {
  ink: Ink;
  from: number; // bytes on the address axis at the lower edge
  to: number;
  colour: (tile: Columns, row: number) => string | undefined; // undefined: hidden
  categoryHidden: (category: number) => boolean;
}

const yOf = (box: Box, style: MapStyle, place: number) =>
  box.y + box.height - ((place - style.from) / (style.to - style.from)) * box.height;

/** Visits the blocks that a window shows one by one; answers the width below which lives are merged. */
function eachBlock(run: RunData, frame: Frame, visit: (tile: Columns, row: number) => void): number {
  const { classes, merged } = run.meta.blocks!;
  const level = merged.findIndex((of) => of.width <= frame.nsPerPixel * 1.5);
  const shortest = level < 0 ? 0 : merged[level].width;
  for (let c = 0; c < classes.length && classes[c].shortest >= shortest; c++)
    for (const name of run.blockTiles(c, frame.from, frame.to)) {
      const tile = run.tiles.get(name);
      if (!tile) continue;
      const made = tile[11], back = tile[13];
      for (let i = 0; i < made.length && made[i] <= frame.to; i++) if (back[i] >= frame.from) visit(tile, i);
    }
  return level;
}

function drawSegments(surface: Surface, run: RunData, frame: Frame, box: Box, style: MapStyle): void {
  const table = run.tiles.get('segments');
  if (!table) return;
  const [place, size, , from, to] = table;
  for (let i = 0; i < place.length; i++) {
    if (to[i] < frame.from || from[i] > frame.to) continue;
    const y0 = yOf(box, style, place[i] + size[i]), y1 = yOf(box, style, place[i]);
    if (y1 < box.y || y0 > box.y + box.height) continue;
    const x0 = Math.max(frame.x(from[i]), frame.left - 2), x1 = Math.min(frame.x(to[i]), frame.left + frame.width + 2);
    surface.rect(x0, y0, Math.max(x1 - x0, 0.5), Math.max(y1 - y0, 0.5), style.ink.band);
    if (y1 - y0 > 3) surface.frame(x0, y0, x1 - x0, y1 - y0, style.ink.grid, 1);
  }
}

export function drawMap(surface: Surface, run: RunData, frame: Frame, box: Box, style: MapStyle): void {
  if (!run.meta.blocks) return;
  surface.clip(frame.left, box.y, frame.width, box.height);
  drawSegments(surface, run, frame, box, style);
  const rect = (from: number, to: number, place: number, size: number, colour: string, alpha = 1) => {
    const y1 = yOf(box, style, place), y0 = yOf(box, style, place + size);
    if (y1 < box.y || y0 > box.y + box.height) return;
    const x0 = Math.max(frame.x(from), frame.left - 2), x1 = Math.min(frame.x(to), frame.left + frame.width + 2);
    const height = y1 - y0 > 2.5 ? y1 - y0 - 0.5 : Math.max(y1 - y0, 0.5);
    surface.rect(x0, y1 - height, Math.max(x1 - x0, 0.5), height, colour, alpha);
  };
  const level = eachBlock(run, frame, (tile, row) => {
    const colour = style.colour(tile, row);
    if (!colour) return;
    const made = tile[11][row], freed = tile[12][row], back = tile[13][row];
    rect(made, Math.min(freed, back), tile[1][row], tile[2][row], colour);
    // Freed, and waiting for an event: paler, with an edge in the colour of alarm.
    if (freed < back) {
      rect(freed, back, tile[1][row], tile[2][row], colour, 0.45);
      rect(freed, Math.min(freed + frame.nsPerPixel, back), tile[1][row], tile[2][row], style.ink.alarm);
    }
  });
  if (level >= 0) drawMerged(run, level, frame, style, rect);
  surface.unclip();
}

function drawMerged(run: RunData, level: number, frame: Frame, style: MapStyle,
                    rect: (from: number, to: number, place: number, size: number, colour: string, alpha?: number) => void): void {
  const { merged } = run.meta.blocks!;
  const { width } = merged[level];
  const { level: here, tiles } = run.window('merged', merged, frame.from - 2 * width, frame.to, width);
  void here;
  for (const [from, length, place, extent, , category] of tiles)
    for (let i = 0; i < from.length; i++) {
      if (from[i] > frame.to || from[i] + length[i] < frame.from || style.categoryHidden(category[i])) continue;
      rect(from[i], from[i] + length[i], place[i], extent[i], run.meta.categories[category[i]].colour, 0.8);
    }
}

/** The block under a point, shown by itself at this zoom or not. */
export function blockAt(run: RunData, frame: Frame, box: Box, style: MapStyle, x: number, y: number): Block | undefined {
  const time = frame.time(x);
  const place = style.from + ((box.y + box.height - y) / box.height) * (style.to - style.from);
  const slack = (1.5 * (style.to - style.from)) / box.height;
  let best: Block | undefined;
  let distance = slack;
  const { classes } = run.meta.blocks!;
  for (let c = 0; c < classes.length; c++)
    for (const name of run.blockTiles(c, time - frame.nsPerPixel, time + frame.nsPerPixel)) {
      const tile = run.tiles.get(name);
      if (!tile) continue;
      for (let i = 0; i < tile[0].length; i++) {
        if (tile[11][i] > time + frame.nsPerPixel || tile[13][i] < time - frame.nsPerPixel) continue;
        if (style.colour(tile, i) === undefined) continue;
        const away = Math.max(tile[1][i] - place, place - tile[1][i] - tile[2][i], 0);
        if (away < distance || (away === 0 && !best)) {
          distance = away;
          best = blockOf(tile, i);
        }
      }
    }
  return best;
}

export function drawMapAxis(surface: Surface, box: Box, style: MapStyle): void {
  const length = style.to - style.from;
  for (const tick of byteTicks(length, Math.max(2, Math.floor(box.height / 45)))) {
    const y = box.y + box.height - (tick / length) * box.height;
    const value = style.from + tick;
    surface.text(box.x - 8, y + 4, value === 0 ? '0' : bytes(value), { fill: style.ink.faint, size: 11, align: 'right' });
  }
}

export const alive = (block: Block) => block.back >= NEVER;
