// When the compute stream does not compute, and why: what `explain --time --json` says, laid over the lanes.

import { LinksReport } from './links';

/** One interval with one cause. Times in ns from the origin of the lanes. */
export interface Wait {
  step: number;
  from: number;
  to: number;
  cause: string;
  colour: string;
  phase: string;
  unit: string;
  op: number; // what is waited for; -1: none
  behind: number; // what that waited for
  text: string;
}

export interface CauseTotal {
  cause: string;
  title: string;
  time_ns: number;
  exposed_ns: number; // of that, while a collective runs
  parts: number;
  longest: number;
}

interface Part {
  start_ns: number;
  end_ns: number;
  cause: string;
  phase: string | null;
  unit: string | null;
  op: number | null;
  behind: number | null;
  text: string;
}

/** The piece "time", or "waits" without remedies (docs/view.md). */
export interface TimeReport {
  headline: string;
  step: number;
  step_title: string;
  step_ns: number;
  compute_ns: number;
  idle_ns: number;
  exposed_communication_ns: number;
  host_ns: number;
  other_ns: number;
  without_profiler: object | null; // the profiler slowed the step
  causes: CauseTotal[];
  colours: Record<string, string>; // of every cause
  parts: Part[];
  other_steps: { step: number; parts: Part[] }[];
  links: LinksReport | null; // the load of the whole run
  remedies?: { step_ms: number; own_not_valid: string[]; peak_reserved_bytes: number; title: string; faster: Record<string, unknown>[]; not_valid: Record<string, unknown>[] } | null;
  remedies_missing?: string | null;
  machine_note: string | null;
}

export function waitsOf(report: TimeReport, origin: number): Wait[] {
  const steps = [{ step: report.step, parts: report.parts }, ...report.other_steps];
  return steps.flatMap(({ step, parts }) => parts.map((part): Wait => ({
    step, from: part.start_ns - origin, to: part.end_ns - origin, cause: part.cause, colour: report.colours[part.cause], phase: part.phase ?? '', unit: part.unit ?? '',
    op: part.op ?? -1, behind: part.behind ?? -1, text: part.text,
  }))).sort((a, b) => a.from - b.from);
}
