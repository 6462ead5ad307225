// What leaves the page: the view as SVG, PNG or CSV, as a file or in the clipboard.

import { STATISTICS } from '../data/meta';
import { CanvasSurface, SvgSurface } from '../draw/surface';
import { csvField } from '../format';
import { Scene } from '../scene';

export function svgOf(scene: Scene, width: number, height: number, measure: (text: string, size: number) => number): string {
  const surface = new SvgSurface(width, height, measure);
  scene.draw(surface, width, height);
  return surface.document(scene.runs.map((run) => run.meta.headline).join(' and '));
}

export function pngOf(scene: Scene, width: number, height: number): Promise<Blob> {
  const scale = 2;
  const canvas = document.createElement('canvas');
  canvas.width = width * scale;
  canvas.height = height * scale;
  const context = canvas.getContext('2d')!;
  context.scale(scale, scale);
  scene.draw(new CanvasSurface(context), width, height);
  return new Promise((resolve, reject) => {
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error('the browser made no PNG'))), 'image/png');
  });
}

/** The memory chart as it is drawn: one line a pixel column, of several runs one after the other. */
export function csvOf(scene: Scene): string {
  const { frame } = scene.layout;
  const components = scene.several ? [] : scene.components(0);
  const several = scene.several;
  const lines = [[...(several ? ['run'] : []), 'time_ns', ...STATISTICS.map((name) => `${name}_bytes`), ...components.map((of) => csvField(of.title))].join(',')];
  scene.runs.forEach((run, r) => {
    const pixels = scene.pixels[r];
    const statistics = pixels?.statistics;
    if (!statistics) return;
    for (let x = 0; x < statistics.allocated.most.length; x++) {
      if (Number.isNaN(statistics.allocated.most[x])) continue;
      lines.push([
        ...(several ? [csvField(run.label)] : []),
        Math.round(scene.memoryFrame(r).time(frame.left + x)),
        ...STATISTICS.map((name) => statistics[name].most[x]),
        ...(pixels.parts.length ? pixels.parts.map((part) => (Number.isNaN(part[x]) ? '' : part[x])) : components.map(() => '')),
      ].join(','));
    }
  });
  return `${lines.join('\r\n')}\r\n`;
}

export function saveFile(name: string, content: Blob): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** Copies text; pages from disk may not have the clipboard, then the old way. */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement('textarea');
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand('copy');
    area.remove();
    return done;
  }
}

export async function copyPng(blob: Blob): Promise<boolean> {
  try {
    await navigator.clipboard.write([new ClipboardItem({ 'image/png': blob })]);
    return true;
  } catch {
    return false;
  }
}
