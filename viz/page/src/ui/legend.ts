// The legend: every colour with its name; a click hides it and shows it again.

import { Ink, STATISTICS } from '../data/meta';
import { StackPart } from '../draw/memory';
import { Scene, RUN_COLOURS } from '../scene';
import { el, swatch, visible } from './dom';

const LINE_TITLES: Record<string, string> = {
  allocated: 'allocated',
  active: 'active (allocated + freed, waiting for an event)',
  reserved: 'reserved',
  requested: 'requested',
};

/** Every component that some run has, once. */
function legendParts(scene: Scene): StackPart[] {
  const parts = scene.runs.flatMap((_, i) => scene.components(i));
  return parts.filter((of, i) => parts.findIndex((other) => other.key === of.key) === i);
}

export function buildLegend(scene: Scene, ink: Ink, toggle: (key: string, only: boolean) => void): HTMLElement {
  const legend = el('div', { className: 'legend' });
  const group = (title: string) => {
    const box = el('div', { className: 'legend-group' }, el('span', { className: 'legend-title' }, title));
    legend.append(box);
    return box;
  };
  const entry = (box: HTMLElement, key: string, title: string, mark: HTMLElement) => {
    const item = el('button', {
      className: 'legend-item', type: 'button', title: `${title}\nclick: hide or show; alt-click: only this`, data: { key },
    }, mark, visible(title));
    item.setAttribute('aria-pressed', String(!scene.hidden(key)));
    item.addEventListener('click', (event) => toggle(key, event.altKey));
    box.append(item);
  };
  if (scene.view.sections.memory && scene.runs.some((run) => run.meta.memory)) {
    const box = group('memory');
    if (scene.several && scene.stacking === '')
      scene.runs.forEach((run, i) => entry(box, `run:${i}`, run.label, swatch(RUN_COLOURS[i % RUN_COLOURS.length])));
    else
      for (const of of legendParts(scene)) entry(box, of.key, of.title, swatch(of.colour));
    for (const statistic of STATISTICS) {
      if (scene.several && statistic !== 'allocated' && statistic !== 'reserved') continue;
      const style = { allocated: 'solid', active: 'solid', reserved: 'dashed', requested: 'dotted' }[statistic];
      const colour = scene.several && scene.stacking === '' ? 'currentColor' : ink[statistic];
      entry(box, `line:${statistic}`, LINE_TITLES[statistic], el('span', { className: 'stroke', style: `border-top:2px ${style} ${colour}` }));
    }
  }
  if (scene.view.sections.memory && scene.capacity !== undefined)
    entry(legend.querySelector<HTMLElement>('.legend-group')!, 'line:limit', 'limit (what the allocator may take)', el('span', { className: 'stroke', style: `border-top:2px dashed ${ink.alarm}` }));
  const map = scene.view.sections.ranks ? scene.runs.find((run) => run.ranks)?.ranks : undefined;
  if (map) {
    const box = group('ranks');
    map.text.states.forEach((of, i) => entry(box, `state:${i}`, of.title, swatch(ink === scene.runs[0].meta.ink.dark ? of.dark : of.light)));
    if (map.text.paths.length)
      entry(box, 'state:path', 'critical path over the ranks', el('span', { className: 'stroke', style: `border-top:2px solid ${ink.text}` }));
  }
  if (scene.view.sections.lanes) {
    const used = new Set<number>();
    for (const run of scene.runs) for (const of of run.usedClasses) used.add(of);
    if (used.size) {
      const box = group('lanes');
      scene.runs[0].meta.classes.forEach((of, i) => {
        if (used.has(i)) entry(box, `class:${i}`, of.title, swatch(of.colour));
      });
    }
  }
  const causes = scene.view.sections.lanes ? scene.runs.flatMap((run) => run.time?.causes.map((of) => ({ ...of, colour: run.time!.colours[of.cause] })) ?? []) : [];
  if (causes.length) {
    const box = group('waits');
    for (const of of causes.filter((cause, i) => causes.findIndex((other) => other.cause === cause.cause) === i))
      entry(box, `cause:${of.cause}`, of.title, swatch(of.colour));
  }
  return legend;
}
