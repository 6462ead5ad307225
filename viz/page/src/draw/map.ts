// The address map: every segment and block as a rectangle of time and addresses.

import { Ink, Stacking } from '../data/meta';
import { Block, RunData, blockOf } from '../data/run';
import { Table } from '../data/tables';
import { byteTicks, tickBytes } from '../format';
import { Box, Frame } from './frame';
import { Surface } from './surface';

export interface MapStyle {
  ink: Ink;
  from: number; // bytes on the address axis at the lower edge
  to: number;
  by: Exclude<Stacking['key'], 'gap'>; // what the colours are by
  colours: (string | undefined)[]; // by that column's value; undefined: hidden
  rest: string | undefined; // of values without a colour
  categories: (string | undefined)[]; // of merged blocks
}

/** The column of blocks that colours are by. */
const COLUMN = {
  category: 'category', unit: 'unit', stream: 'stream', module: 'by_module', operator: 'by_operator', frame: 'by_frame',
} as const;

export const colourOf = (style: MapStyle, tile: Table<'blocks'>, row: number): string | undefined => {
  const value = tile[COLUMN[style.by]][row];
  return value in style.colours ? style.colours[value] : style.rest;
};

/** Lives shorter than this many pixels may be merged: the map is a few hundred pixels high, so they hide each other. */
const MERGED_PIXELS = 4;

const yOf = (box: Box, style: MapStyle, place: number) =>
  box.y + box.height - ((place - style.from) / (style.to - style.from)) * box.height;

/** Visits the blocks that a window shows one by one; answers the width below which lives are merged. */
function eachBlock(run: RunData, frame: Frame, visit: (tile: Table<'blocks'>, row: number) => void): number {
  const { classes, merged } = run.meta.blocks!;
  const level = merged.findIndex((of) => of.width <= frame.nsPerPixel * MERGED_PIXELS);
  const shortest = level < 0 ? 0 : merged[level].width;
  for (let c = 0; c < classes.length && classes[c].shortest >= shortest; c++)
    for (const name of run.blockTiles(c, frame.from, frame.to)) {
      const tile = run.tiles.get('blocks', name);
      if (!tile) continue;
      const { made, back } = tile;
      for (let i = 0; i < made.length && made[i] <= frame.to; i++) if (back[i] >= frame.from) visit(tile, i);
    }
  return level;
}

function drawSegments(surface: Surface, run: RunData, frame: Frame, box: Box, style: MapStyle): void {
  const table = run.tiles.get('segments', 'segments');
  if (!table) return;
  const { place, size, from, to } = table;
  const last = run.memoryEnd;
  for (let i = 0; i < place.length; i++) {
    if (to[i] < frame.from || from[i] > frame.to || last < frame.from) continue;
    const y0 = yOf(box, style, place[i] + size[i]), y1 = yOf(box, style, place[i]);
    if (y1 < box.y || y0 > box.y + box.height) continue;
    const x0 = Math.max(frame.x(from[i]), frame.left - 2), x1 = Math.min(frame.x(Math.min(to[i], last)), frame.left + frame.width + 2);
    surface.rect(x0, y0, Math.max(x1 - x0, 0.5), Math.max(y1 - y0, 0.5), style.ink.band);
    if (y1 - y0 > 3) surface.frame(x0, y0, x1 - x0, y1 - y0, style.ink.grid, 1);
  }
}

/** "#rrggbb" over paper as a pixel of ImageData (little-endian: ABGR). */
function pixelOf(colour: string, paper: string, alpha: number): number {
  const part = (text: string, at: number) => parseInt(text.slice(at, at + 2), 16);
  const mix = (at: number) => Math.round(alpha * part(colour, at) + (1 - alpha) * part(paper, at));
  return ((255 << 24) | (mix(5) << 16) | (mix(3) << 8) | mix(1)) >>> 0;
}

/** Rectangles of time and addresses, set pixel by pixel: hundreds of thousands within a frame. */
class Raster {
  private readonly canvas = document.createElement('canvas');
  private readonly context = this.canvas.getContext('2d')!;
  private image?: ImageData;
  private pixels = new Uint32Array(0);
  private width = 0;
  private height = 0;

  begin(width: number, height: number): void {
    [this.width, this.height] = [Math.max(1, Math.round(width)), Math.max(1, Math.round(height))];
    if (!this.image || this.canvas.width !== this.width || this.canvas.height !== this.height) {
      this.canvas.width = this.width;
      this.canvas.height = this.height;
      this.image = this.context.createImageData(this.width, this.height);
      this.pixels = new Uint32Array(this.image.data.buffer);
    } else this.pixels.fill(0);
  }
  /** Corners in pixels; at least one pixel is set, and a line is left free above what is high enough to have one. */
  rect(x0: number, x1: number, top: number, bottom: number, pixel: number): void {
    if (x1 < 0 || x0 >= this.width || bottom < 0 || top >= this.height) return;
    const left = Math.max(0, Math.floor(x0)), right = Math.min(this.width, Math.max(Math.floor(x1), Math.floor(x0) + 1));
    let first = Math.floor(top);
    const end = Math.min(this.height, Math.max(Math.floor(bottom), first + 1));
    if (end - first > 3) first += 1;
    const { pixels, width } = this;
    for (let y = Math.max(0, first); y < end; y++)
      if (right - left < 24) for (let i = y * width + left, last = y * width + right; i < last; i++) pixels[i] = pixel;
      else pixels.fill(pixel, y * width + left, y * width + right);
  }
  end(): HTMLCanvasElement {
    this.context.putImageData(this.image!, 0, 0);
    return this.canvas;
  }
}

const raster = new Raster();

export function drawMap(surface: Surface, run: RunData, frame: Frame, box: Box, style: MapStyle): void {
  if (!run.meta.blocks) return;
  surface.clip(frame.left, box.y, frame.width, box.height);
  drawSegments(surface, run, frame, box, style);
  const { scale } = surface;
  raster.begin(box.width * scale, box.height * scale);
  const up = (box.height / (style.to - style.from)) * scale;
  const high = box.height * scale;
  const last = run.memoryEnd;
  const rect = (from: number, to: number, place: number, size: number, pixel: number) =>
    raster.rect(frame.column(from) * scale, frame.column(to < last ? to : last) * scale, high - (place + size - style.from) * up,
                high - (place - style.from) * up, pixel);
  const pixels = (colours: (string | undefined)[], alpha: number) =>
    colours.map((colour) => (colour ? pixelOf(colour, style.ink.paper, alpha) : 0));
  const full = pixels([...style.colours, style.rest], 1), pale = pixels([...style.colours, style.rest], 0.45);
  const alarm = pixelOf(style.ink.alarm, style.ink.paper, 1);
  const rest = style.colours.length;
  const level = eachBlock(run, frame, (tile, row) => {
    const value = tile[COLUMN[style.by]][row];
    const at = value >= 0 && value < rest ? value : rest;
    if (full[at] === 0) return;
    const made = tile.made[row], freed = tile.freed[row], back = tile.back[row];
    const place = tile.place[row], size = tile.size[row];
    rect(made, freed < back ? freed : back, place, size, full[at]);
    // Freed, and waiting for an event: paler, with an edge in the colour of alarm.
    if (freed < back) {
      rect(freed, back, place, size, pale[at]);
      rect(freed, freed, place, size, alarm);
    }
  });
  if (level >= 0) {
    const colours = pixels(style.categories, 0.85);
    const { merged } = run.meta.blocks;
    const { width } = merged[level];
    for (const { from, length, place, extent, category } of run.window('merged', 'merged', merged, frame.from - 2 * width, frame.to, width).tiles)
      for (let i = 0; i < from.length; i++)
        if (from[i] <= frame.to && from[i] + length[i] >= frame.from && colours[category[i]])
          rect(from[i], from[i] + length[i], place[i], extent[i], colours[category[i]]);
  }
  surface.image(frame.left, box.y, box.width, box.height, raster.end());
  surface.unclip();
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
      const tile = run.tiles.get('blocks', name);
      if (!tile) continue;
      const { place: low, size } = tile;
      for (let i = 0; i < low.length; i++) {
        if (tile.made[i] > time + frame.nsPerPixel || tile.back[i] < time - frame.nsPerPixel) continue;
        if (colourOf(style, tile, i) === undefined) continue;
        const away = Math.max(low[i] - place, place - low[i] - size[i], 0);
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
    surface.text(box.x - 8, y + 4, tickBytes(value), { fill: style.ink.faint, size: 11, align: 'right' });
  }
}
