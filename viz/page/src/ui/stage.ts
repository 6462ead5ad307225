// The canvases: the picture, and over it what follows the pointer and the selection.

import { Ink } from '../data/meta';
import { Block } from '../data/run';
import { ROW } from '../draw/lanes';
import { CanvasSurface } from '../draw/surface';
import { moment } from '../format';
import { Page } from '../page';
import { el } from './dom';

const KEPT_FRAMES = 500;

/** What is framed: an op of a track with lines from what it waits for, or a block. */
export interface Marked {
  run: number;
  from: number;
  to: number;
  track?: number;
  wait?: boolean; // in the lane of waits
  block?: Block;
  waits: { track: number; from: number }[];
}

export class Stage {
  readonly canvas = el('canvas', { className: 'scene' });
  readonly overlay = el('canvas', { className: 'overlay' });
  readonly box = el('div', { className: 'stage' }, this.canvas, this.overlay);
  marked?: Marked;
  pointer?: { x: number; y: number };
  /** Times of the last frames in ms. */
  readonly frames: number[] = [];

  constructor(private readonly page: Page) {}

  size(): [number, number] {
    return [this.box.clientWidth, this.box.clientHeight];
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

  draw(): void {
    const start = performance.now();
    const [width, height] = this.size();
    if (width < 10 || height < 10) return;
    this.page.scene.draw(new CanvasSurface(this.context(this.canvas)), width, height);
    this.drawOverlay();
    this.frames.push(performance.now() - start);
    if (this.frames.length > KEPT_FRAMES) this.frames.shift();
    performance.mark('foreshard-frame');
  }

  drawOverlay(): void {
    const [width, height] = this.size();
    const context = this.context(this.overlay);
    context.clearRect(0, 0, width, height);
    const surface = new CanvasSurface(context);
    const { layout } = this.page.scene;
    const ink = this.page.scene.ink();
    const { frame } = layout;
    if (this.page.scene.view.range) {
      const [x0, x1] = this.page.scene.view.range.map((time) => frame.x(time));
      const left = Math.max(x0, frame.left), right = Math.min(x1, frame.left + frame.width);
      if (right > left) {
        surface.rect(left, layout.top, right - left, layout.axis - layout.top, ink.text, 0.09);
        surface.path([left, layout.top, left, layout.axis], 4, ink.text, 1);
        surface.path([right, layout.top, right, layout.axis], 4, ink.text, 1);
      }
    }
    surface.clip(frame.left - 3, 0, frame.width + 6, height);
    this.drawMarked(surface, ink);
    surface.unclip();
    if (this.pointer && this.pointer.x >= frame.left && this.pointer.x <= frame.left + frame.width) {
      surface.path([this.pointer.x + 0.5, layout.top, this.pointer.x + 0.5, layout.axis], 4, ink.faint, 0.8, [3, 3]);
      const text = moment(Math.round(frame.time(this.pointer.x)));
      const size = surface.textWidth(text, 11);
      const x = Math.min(Math.max(this.pointer.x, frame.left + size / 2 + 4), frame.left + frame.width - size / 2 - 4);
      surface.rect(x - size / 2 - 4, layout.axis + 3, size + 8, 16, ink.text);
      surface.text(x, layout.axis + 15, text, { fill: ink.paper, size: 11, align: 'center' });
    }
  }

  private rowY(run: number, track: number): number | undefined {
    const { layout } = this.page.scene;
    if (!layout.lanes) return undefined;
    let index = layout.rows.findIndex((row) => row.run === run && row.track === track);
    if (index < 0) {
      const lane = this.page.scene.runs[run].meta.tracks[track]?.lane;
      index = layout.rows.findIndex((row) => row.run === run && row.lane === lane);
    }
    if (index < 0) return undefined;
    const y = layout.lanes.y + index * ROW - this.page.scene.view.scroll;
    return y >= layout.lanes.y - ROW && y < layout.lanes.y + layout.lanes.height ? y : undefined;
  }

  private waitsY(run: number): number | undefined {
    const { layout, view } = this.page.scene;
    const index = layout.rows.findIndex((row) => row.run === run && row.kind === 'waits');
    if (index < 0 || !layout.lanes) return undefined;
    const y = layout.lanes.y + index * ROW - view.scroll;
    return y >= layout.lanes.y - ROW && y < layout.lanes.y + layout.lanes.height ? y : undefined;
  }

  private drawMarked(surface: CanvasSurface, ink: Ink): void {
    const of = this.marked;
    const { layout } = this.page.scene;
    const { frame } = layout;
    if (!of) return;
    const x0 = Math.max(frame.x(of.from), frame.left - 3), x1 = Math.min(frame.x(of.to), frame.left + frame.width + 3);
    if (x1 < frame.left || x0 > frame.left + frame.width) return;
    if (of.wait) {
      const y = this.waitsY(of.run);
      if (y !== undefined) surface.frame(x0 - 1, y + 1, Math.max(x1 - x0, 1) + 2, ROW - 2, ink.text, 2);
      return;
    }
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
    const map = layout.map.find(({ runs }) => runs.includes(of.run))?.box;
    if (!of.block || !map) return;
    const { mapFrom, mapTo } = this.page.scene.view;
    const place = (at: number) => map.y + map.height - ((at - mapFrom) / (mapTo - mapFrom)) * map.height;
    const y0 = Math.max(place(of.block.place + of.block.size), map.y), y1 = Math.min(place(of.block.place), map.y + map.height);
    if (y1 >= map.y && y0 <= map.y + map.height)
      surface.frame(x0 - 1, y0 - 1, Math.max(x1 - x0, 1) + 2, Math.max(y1 - y0, 1) + 2, ink.text, 2);
  }
}
