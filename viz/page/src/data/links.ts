// What the GPU's links carry over time: what `explain --time --json` says under `links`, of the whole run.

import { upperBound } from './upper_bound';

/** A link in the step of the report. */
export interface LinkUse {
  link: string;
  title: string;
  most_gb_s: number; // what it carries
  bytes: number;
  mean_gb_s: number;
  peak_gb_s: number;
  busy_ns: number;
  full_ns: number;
  waited_ns: number;
  waited_idle_ns: number;
  load: [number, number, number][]; // begin and end in ns, GB/s; by time
}

export interface LinksReport {
  machine: string;
  notes: string[]; // what the rates mean for this run, and what is not in them
  not_placed: number;
  full_share: number;
  colour: string;
  links: LinkUse[];
}

/** One link's load, in ns from the origin of the lanes. */
export class LinkSeries {
  private readonly from: number[];
  private readonly to: number[];
  private readonly rates: number[];
  readonly peak: number;

  constructor(
    readonly of: LinkUse,
    readonly colour: string,
    origin: number,
  ) {
    this.from = of.load.map(([from]) => from - origin);
    this.to = of.load.map(([, to]) => to - origin);
    this.rates = of.load.map(([, , rate]) => rate);
    this.peak = this.rates.reduce((most, rate) => Math.max(most, rate), 0);
  }

  /** Stretches that reach into a window. */
  each(from: number, to: number, visit: (from: number, to: number, rate: number) => void): void {
    for (let i = Math.max(upperBound(this.from, from) - 1, 0); i < this.from.length && this.from[i] <= to; i++)
      if (this.to[i] >= from) visit(this.from[i], this.to[i], this.rates[i]);
  }

  /** GB/s; 0: nothing moves. */
  at(time: number): number {
    const i = upperBound(this.from, time) - 1;
    return i >= 0 && time < this.to[i] ? this.rates[i] : 0;
  }
}

export function seriesOf(report: LinksReport | null | undefined, origin: number): LinkSeries[] {
  return report ? report.links.map((of) => new LinkSeries(of, report.colour, origin)) : [];
}
