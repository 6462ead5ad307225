// Where things stand: boxes on the screen, and the window of time that they show.

import { Clock } from '../data/clock';

export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

export const inside = (box: Box, x: number, y: number) =>
  x >= box.x && x < box.x + box.width && y >= box.y && y < box.y + box.height;

/** A window of time over a width of pixels. */
export class Frame {
  /** The same window in memory's times, which `clock` lays over the axis. */
  over(clock: Clock): Frame {
    return clock.same ? this : new MemoryFrame(this, clock);
  }

  constructor(
    readonly from: number,
    readonly to: number,
    readonly left: number,
    readonly width: number,
  ) {}

  get nsPerPixel(): number {
    return (this.to - this.from) / this.width;
  }
  /** Pixels right of the left edge. */
  column(time: number): number {
    return ((time - this.from) / (this.to - this.from)) * this.width;
  }
  x(time: number): number {
    return this.left + this.column(time);
  }
  time(x: number): number {
    return this.from + ((x - this.left) / this.width) * (this.to - this.from);
  }
}

class MemoryFrame extends Frame {
  constructor(
    private readonly axis: Frame,
    private readonly clock: Clock,
  ) {
    super(clock.toMemory(axis.from), clock.toMemory(axis.to), axis.left, axis.width);
  }
  /** Where most is stretched: a level of detail is then fine enough everywhere. */
  override get nsPerPixel(): number {
    return this.axis.nsPerPixel / this.clock.mostStretched;
  }
  override column(time: number): number {
    return this.axis.column(this.clock.toAxis(time));
  }
  override time(x: number): number {
    return this.clock.toMemory(this.axis.time(x));
  }
}
