// Numbers as people read them.

const KIB = 1024;
const UNITS: [number, string][] = [
  [KIB ** 4, 'TiB'],
  [KIB ** 3, 'GiB'],
  [KIB ** 2, 'MiB'],
  [KIB, 'KiB'],
];

const TIME_UNITS: [number, string][] = [
  [1e9, 's'],
  [1e6, 'ms'],
  [1e3, 'µs'],
];

/** "15.64 GiB"; whole bytes below a KiB. */
export function bytes(value: number): string {
  for (const [size, unit] of UNITS) if (Math.abs(value) >= size) return `${(value / size).toFixed(2)} ${unit}`;
  return `${Math.round(value)} B`;
}

/** `y` less `x`, both as they are printed with so many decimals: 1.24 between 14.00 and 15.24. As core/base/add_up.hpp. */
export function printedDifference(x: number, y: number, decimals: number): number {
  return Number((Number(y.toFixed(decimals)) - Number(x.toFixed(decimals))).toFixed(decimals));
}

/** The same in the unit that the larger of them is printed in; exact where that would show less than 1 of it. */
function differenceInUnits(x: number, y: number, units: [number, string][], decimals: number): number {
  const unit = units.find(([size]) => Math.max(Math.abs(x), Math.abs(y)) >= size)?.[0] ?? 1;
  return Math.abs(y - x) < unit ? y - x : printedDifference(x / unit, y / unit, decimals) * unit;
}

/** Of numbers as bytes() has them. */
export function bytesDifference(x: number, y: number): number {
  return differenceInUnits(x, y, UNITS, 2);
}

/** Of lengths of time as duration() has them. */
export function durationDifference(x: number, y: number): number {
  return differenceInUnits(x, y, TIME_UNITS, 3);
}

/** "16,793,993,216 B" */
export function exactBytes(value: number): string {
  return `${Math.round(value).toLocaleString('en-US')} B`;
}

/** As bytes(), without zeros that say nothing: "20 GiB", "2.5 GiB". */
export function tickBytes(value: number): string {
  return value === 0 ? '0' : bytes(value).replace(/\.00 /, ' ').replace(/(\.\d)0 /, '$1 ');
}

export function both(value: number): string {
  return Math.abs(value) < KIB ? bytes(value) : `${bytes(value)} (${exactBytes(value)})`;
}

export function count(value: number): string {
  return value.toLocaleString('en-US');
}

let events = false;

/** Of runs without times, which count allocator events: what is said of their moments. */
export function countEvents(on: boolean): void {
  events = on;
}

export function countsEvents(): boolean {
  return events;
}

/** A length of time in ns: "12.345 ms", "1.250 µs". */
export function duration(ns: number): string {
  if (events) return `${count(Math.round(ns))} event${Math.round(ns) === 1 ? '' : 's'}`;
  for (const [size, unit] of TIME_UNITS) if (Math.abs(ns) >= size) return `${(ns / size).toFixed(3)} ${unit}`;
  return `${Math.round(ns)} ns`;
}

/** A point in time, from the origin. */
export function moment(ns: number): string {
  if (events) return `event ${count(Math.round(ns))}`;
  return `${(ns / 1e6).toFixed(ns % 1000 === 0 ? 3 : 6)} ms`;
}

export function percent(share: number): string {
  return `${(100 * share).toFixed(1)} %`;
}

/** At most `most` ticks at 1, 2 or 5 times a power of ten. */
export function ticks(low: number, high: number, most: number): number[] {
  const rough = (high - low) / Math.max(most, 1);
  if (!(rough > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough) ?? 10 * power;
  const out: number[] = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) out.push(i * step);
  return out;
}

/** Ticks of bytes at round numbers of the binary unit that fits. */
export function byteTicks(high: number, most: number): number[] {
  const unit = UNITS.find(([size]) => high >= size)?.[0] ?? 1;
  return ticks(0, high / unit, most).map((value) => value * unit);
}

/** A tick's text: no more decimals than the step needs. */
export function tickText(value: number, step: number): string {
  const decimals = Math.max(0, Math.min(9, -Math.floor(Math.log10(step) + 1e-9)));
  const text = value.toFixed(decimals);
  return Number(text) === 0 ? (0).toFixed(decimals) : text;
}

export function csvField(text: string): string {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** At most 80 letters; the middle gives way: C++ names of kernels go on for pages. */
export function shortened(text: string): string {
  return text.length <= 80 ? text : `${text.slice(0, 52)}…${text.slice(-27)}`;
}
