// The lane of waits: a colour for each cause.

import { RunData } from '../data/run';
import { upperBound } from '../data/upper_bound';
import { Wait } from '../data/waits';
import { Frame } from './frame';
import { ROW } from './lanes';
import { Surface } from './surface';

/** Waits of the window; they do not overlap. */
function eachWait(run: RunData, frame: Frame, visit: (wait: Wait, at: number) => void): void {
  const { waits, waitStarts } = run;
  for (let i = Math.max(upperBound(waitStarts, frame.from) - 1, 0); i < waits.length && waits[i].from <= frame.to; i++)
    if (waits[i].to >= frame.from) visit(waits[i], i);
}

/**
 * Each pixel column is filled as high as the share of its time that is waited for, in the colour of its longest wait:
 * thousands of gaps between kernels are then not more than they are.
 */
export function drawWaits(surface: Surface, run: RunData, frame: Frame, y: number, hidden: (key: string) => boolean): void {
  const width = Math.max(1, Math.floor(frame.width));
  const share = new Float64Array(width), longest = new Float64Array(width);
  const colours: string[] = new Array<string>(width).fill('');
  eachWait(run, frame, (wait) => {
    if (hidden(`cause:${wait.cause}`)) return;
    const from = Math.max(frame.column(wait.from), 0), to = Math.min(frame.column(wait.to), width);
    for (let x = Math.floor(from); x < to; x++) {
      const part = Math.min(to, x + 1) - Math.max(from, x);
      share[x] += part;
      if (part > longest[x]) [longest[x], colours[x]] = [part, wait.colour];
    }
  });
  const height = ROW - 4;
  for (let x = 0; x < width;) {
    const tall = Math.min(height, Math.max(share[x] > 0 ? 1 : 0, Math.round(share[x] * height)));
    let end = x + 1;
    while (end < width && colours[end] === colours[x] && Math.min(height, Math.max(share[end] > 0 ? 1 : 0, Math.round(share[end] * height))) === tall) end++;
    if (tall) surface.rect(frame.left + x, y + 2 + height - tall, end - x, tall, colours[x]);
    x = end;
  }
}

/** The wait under a time: of several within `slack` ns the longest. */
export function waitAt(run: RunData, frame: Frame, time: number, slack: number, hidden: (key: string) => boolean): number | undefined {
  const near = new Frame(time - slack, time + slack, frame.left, frame.width);
  let best: number | undefined;
  eachWait(run, near, (wait, at) => {
    if (hidden(`cause:${wait.cause}`)) return;
    if (best === undefined || wait.to - wait.from > run.waits[best].to - run.waits[best].from) best = at;
  });
  return best;
}
