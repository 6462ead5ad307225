// The bar at the top: what the memory is stacked by, which charts are shown, search, and what acts on the whole view.

import { MemoryOver } from '../data/clock';
import { Scene } from '../scene';
import { button, el, visible } from './dom';
import { SearchBox } from './search_box';

/** What the bar's controls do. */
export interface ToolbarActions {
  /** The stacking or the charts of the view have changed. */
  sectionsChanged(): void;
  overChanged(over: MemoryOver): void;
  fit(): void;
  copyLink(): void;
  nextTheme(): void;
  help(): void;
}

function stackingSelect(scene: Scene, changed: () => void): HTMLElement {
  const select = el('select', { title: 'what the memory is stacked by', className: 'stacking' });
  const stackings = scene.runs[0].meta.memory?.stackings ?? [];
  for (const of of stackings)
    select.append(el('option', { value: of.key, textContent: of.statistic === 'allocated' ? `by ${of.title}` : of.title }));
  select.append(el('option', { value: '', textContent: scene.several ? 'both in one chart' : 'lines only' }));
  select.value = scene.view.stacking;
  select.addEventListener('change', () => {
    scene.view.stacking = select.value;
    changed();
  });
  return select;
}

/** What memory is laid over, where there is a choice. */
function overSelect(scene: Scene, changed: (over: MemoryOver) => void): HTMLElement | undefined {
  const choices = (['gpu', 'host'] as const).filter((over) => scene.runs.some((run) => run.meta.clocks.some((of) => of.over === over && (over === 'gpu' || run.meta.two_clocks || run.meta.clocks.length > 1))));
  if (choices.length < 2) return undefined;
  const select = el('select', { title: 'what the memory stands over: the same phase on the GPU, or on the host', className: 'over' });
  const titles = { gpu: 'over the GPU', host: 'over the host' };
  for (const over of choices) select.append(el('option', { value: over, textContent: titles[over] }));
  select.value = scene.runs[0].over;
  select.addEventListener('change', () => changed(select.value as MemoryOver));
  return select;
}

/** Shown as soon as a limit is known. */
export function limitToggle(scene: Scene, changed: () => void): HTMLElement {
  const box = el('input', { type: 'checkbox', checked: scene.toLimit });
  box.addEventListener('change', () => {
    scene.view.limit = box.checked;
    changed();
  });
  return el('label', { className: 'toggle limit', title: 'the memory axis goes up to what the allocator may take' }, box, 'limit');
}

function sectionToggles(scene: Scene, changed: () => void): HTMLElement[] {
  const names = (['memory', 'ranks', 'lanes', 'map'] as const).filter((name) => name !== 'ranks' || scene.runs.some((run) => run.meta.rank_map));
  return names.map((name) => {
    const box = el('input', { type: 'checkbox', checked: scene.view.sections[name] });
    box.addEventListener('change', () => {
      scene.view.sections[name] = box.checked;
      changed();
    });
    return el('label', { className: 'toggle' }, box, name === 'map' ? 'addresses' : name);
  });
}

export function toolbar(title: string, home: string | undefined, scene: Scene, search: SearchBox, saveMenu: HTMLElement, actions: ToolbarActions): HTMLElement {
  return el('header', { className: 'top' },
    home ? el('a', { className: 'home', href: home, title: 'the list of runs' }, '‹ runs') : undefined,
    el('h1', { title: visible(title) }, visible(title)),
    scene.runs[0].meta.memory ? stackingSelect(scene, actions.sectionsChanged) : undefined,
    overSelect(scene, actions.overChanged),
    ...sectionToggles(scene, actions.sectionsChanged),
    el('span', { className: 'limit-place' }),
    el('span', { className: 'grow' }),
    search.input,
    button('‹', 'the find before (shift-enter, p)', () => search.next(-1), 'step'),
    button('›', 'the next find (enter, n)', () => search.next(1), 'step'),
    search.count,
    button('Fit', 'the step (f); everything (shift-f)', actions.fit),
    button('Link', 'copies a link to this view', actions.copyLink),
    saveMenu,
    button('◐', 'light, dark (t)', actions.nextTheme, 'theme'),
    button('?', 'keys (?)', actions.help, 'help'),
  );
}
