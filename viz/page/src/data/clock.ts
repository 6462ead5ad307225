// Times of memory and times of the axis: memory is on the axis as recorded, or laid over it phase by phase
// (docs/view.md). Between two knots both run evenly; before the first and behind the last as recorded.

import { upperBound } from './upper_bound';

export type MemoryOver = 'host' | 'gpu';

export class Clock {
  private readonly memory: number[];
  private readonly axis: number[];

  constructor(knots: [number, number][]) {
    this.memory = knots.map(([memory]) => memory);
    this.axis = knots.map(([, axis]) => axis);
  }

  /** Whether memory's times are the axis's. */
  get same(): boolean {
    return this.memory.length === 0;
  }
  toAxis(time: number): number {
    return this.same ? time : mapped(this.memory, this.axis, time);
  }
  toMemory(time: number): number {
    return this.same ? time : mapped(this.axis, this.memory, time);
  }
  /** The most that memory's time is stretched anywhere. */
  get mostStretched(): number {
    let most = 1;
    for (let i = 1; i < this.memory.length; i++)
      most = Math.max(most, (this.axis[i] - this.axis[i - 1]) / (this.memory[i] - this.memory[i - 1]));
    return most;
  }
}

function mapped(from: number[], to: number[], time: number): number {
  const next = upperBound(from, time);
  if (next === 0) return to[0] + time - from[0];
  const at = next - 1;
  if (next === from.length) return to[at] + time - from[at];
  return to[at] + ((time - from[at]) / (from[next] - from[at])) * (to[next] - to[at]);
}
