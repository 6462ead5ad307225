// What the keys do; ui/help.ts tells it.

import { ROW } from '../draw/lanes';
import { Navigation } from '../navigation';
import { Page } from '../page';
import { RangePanel } from './range';
import { SearchBox } from './search_box';
import { SelectionPanel } from './selection';
import { Stage } from './stage';

/** The parts of the page that keys reach. */
export interface KeyTargets {
  page: Page;
  stage: Stage;
  navigation: Navigation;
  selection: SelectionPanel;
  range: RangePanel;
  search: SearchBox;
  help: HTMLDialogElement;
  nextTheme: () => void;
}

function actionsOf({ page, stage, navigation, selection, range, search, help, nextTheme }: KeyTargets): Record<string, () => void> {
  const { view } = page.scene;
  /** Under the pointer, or in the middle. */
  const centre = () => {
    const { frame } = page.scene.layout;
    return stage.pointer && stage.pointer.x >= frame.left ? frame.time(stage.pointer.x) : (view.from + view.to) / 2;
  };
  const lanes = (by: number) => {
    navigation.scrollLanes(by);
    page.changed();
  };
  const closer = () => navigation.zoom(0.8, centre());
  const farther = () => navigation.zoom(1.25, centre());
  return {
    w: closer, '+': closer, s: farther, '-': farther,
    a: () => navigation.pan(-0.12), d: () => navigation.pan(0.12),
    ArrowLeft: () => navigation.pan(-0.06), ArrowRight: () => navigation.pan(0.06),
    ArrowUp: () => lanes(-ROW * 2), ArrowDown: () => lanes(ROW * 2),
    f: () => navigation.fit(false), F: () => navigation.fit(true),
    z: () => view.range && navigation.setWindow(...view.range),
    '/': () => search.input.select(), n: () => search.next(1), p: () => search.next(-1),
    t: nextTheme, '?': () => help.showModal(),
    Escape: () => {
      range.clear();
      void selection.select(undefined, false);
    },
  };
}

export function listenToKeys(targets: KeyTargets): void {
  const actions = actionsOf(targets);
  addEventListener('keydown', (event) => {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test((event.target as HTMLElement).tagName);
    if (event.ctrlKey || event.metaKey || event.altKey || typing || targets.help.open) return;
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
}
