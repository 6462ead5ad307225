// Where things stand: boxes on the screen, and the window of time that they show.

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
