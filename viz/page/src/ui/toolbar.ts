// The bar at the top: what the memory is stacked by, which charts are shown, search, and what acts on the whole view.

import { Scene } from '../scene';
import { button, el, visible } from './dom';
import { SearchBox } from './search_box';

/** What the bar's controls do. */
export interface ToolbarActions {
  /** The stacking or the charts of the view have changed. */
  sectionsChanged(): void;
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
  select.append(el('option', { value: '', textContent: 'lines only' }));
  select.value = scene.view.stacking;
  select.addEventListener('change', () => {
    scene.view.stacking = select.value;
    changed();
  });
  return select;
}

function sectionToggles(scene: Scene, changed: () => void): HTMLElement[] {
  return (['memory', 'lanes', 'map'] as const).map((name) => {
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
    scene.several || !scene.runs[0].meta.memory ? undefined : stackingSelect(scene, actions.sectionsChanged),
    ...sectionToggles(scene, actions.sectionsChanged),
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
