// What the charts draw on: a canvas on screen and in PNG files, or an SVG document. One drawing code for both.

export interface TextStyle {
  size?: number;
  fill: string;
  align?: 'left' | 'center' | 'right';
  bold?: boolean;
  halo?: string;
}

export interface Surface {
  rect(x: number, y: number, width: number, height: number, fill: string, alpha?: number): void;
  frame(x: number, y: number, width: number, height: number, stroke: string, lineWidth?: number): void;
  /** Straight lines from point to point; points are x, y, x, y … */
  path(points: ArrayLike<number>, length: number, stroke: string, lineWidth: number, dash?: number[]): void;
  area(points: ArrayLike<number>, length: number, fill: string, alpha?: number): void;
  text(x: number, y: number, text: string, style: TextStyle): void;
  textWidth(text: string, size: number): number;
  /** Device pixels in one unit of length: as fine as an image needs to be. */
  readonly scale: number;
  /** A picture in a box. */
  image(x: number, y: number, width: number, height: number, picture: HTMLCanvasElement): void;
  clip(x: number, y: number, width: number, height: number): void;
  unclip(): void;
}

const FONT = "system-ui, 'Segoe UI', Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif";

export class CanvasSurface implements Surface {
  private font = '';
  constructor(readonly context: CanvasRenderingContext2D) {}

  get scale(): number {
    return this.context.getTransform().a;
  }
  image(x: number, y: number, width: number, height: number, picture: HTMLCanvasElement): void {
    this.context.imageSmoothingEnabled = false;
    this.context.drawImage(picture, x, y, width, height);
  }

  rect(x: number, y: number, width: number, height: number, fill: string, alpha = 1): void {
    const c = this.context;
    if (alpha !== 1) c.globalAlpha = alpha;
    c.fillStyle = fill;
    c.fillRect(x, y, width, height);
    if (alpha !== 1) c.globalAlpha = 1;
  }
  frame(x: number, y: number, width: number, height: number, stroke: string, lineWidth = 1): void {
    this.context.strokeStyle = stroke;
    this.context.lineWidth = lineWidth;
    this.context.strokeRect(x, y, width, height);
  }
  path(points: ArrayLike<number>, length: number, stroke: string, lineWidth: number, dash: number[] = []): void {
    const c = this.context;
    c.beginPath();
    for (let i = 0; i < length; i += 2) c.lineTo(points[i], points[i + 1]);
    c.strokeStyle = stroke;
    c.lineWidth = lineWidth;
    c.setLineDash(dash);
    c.stroke();
    if (dash.length) c.setLineDash([]);
  }
  area(points: ArrayLike<number>, length: number, fill: string, alpha = 1): void {
    const c = this.context;
    c.beginPath();
    for (let i = 0; i < length; i += 2) c.lineTo(points[i], points[i + 1]);
    c.closePath();
    c.globalAlpha = alpha;
    c.fillStyle = fill;
    c.fill();
    c.globalAlpha = 1;
  }
  text(x: number, y: number, text: string, style: TextStyle): void {
    const c = this.context;
    this.setFont(style.size ?? 12, style.bold);
    c.textAlign = style.align ?? 'left';
    c.textBaseline = 'alphabetic';
    if (style.halo) {
      c.strokeStyle = style.halo;
      c.lineWidth = 3;
      c.lineJoin = 'round';
      c.strokeText(text, x, y);
    }
    c.fillStyle = style.fill;
    c.fillText(text, x, y);
  }
  textWidth(text: string, size: number): number {
    this.setFont(size);
    return this.context.measureText(text).width;
  }
  clip(x: number, y: number, width: number, height: number): void {
    this.context.save();
    this.context.beginPath();
    this.context.rect(x, y, width, height);
    this.context.clip();
    this.font = '';
  }
  unclip(): void {
    this.context.restore();
    this.font = '';
  }

  private setFont(size: number, bold = false): void {
    const font = `${bold ? 'bold ' : ''}${size}px ${FONT}`;
    if (font !== this.font) this.context.font = this.font = font;
  }
}

const number = (value: number) => String(Math.round(value * 100) / 100);

/** The five special characters as entities; control characters, which XML forbids, as U+FFFD. */
export function escapeXml(text: string): string {
  return text
    .replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, '\ufffd')
    .replace(/[&<>"']/g, (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' })[c] as string);
}

export class SvgSurface implements Surface {
  readonly scale = 2;
  private readonly parts: string[] = [];
  private clips = 0;

  constructor(
    private readonly width: number,
    private readonly height: number,
    private readonly measure: (text: string, size: number) => number,
  ) {}

  rect(x: number, y: number, width: number, height: number, fill: string, alpha = 1): void {
    const opacity = alpha === 1 ? '' : ` opacity="${number(alpha)}"`;
    this.parts.push(
      `<rect x="${number(x)}" y="${number(y)}" width="${number(width)}" height="${number(height)}" fill="${fill}"${opacity}/>`,
    );
  }
  frame(x: number, y: number, width: number, height: number, stroke: string, lineWidth = 1): void {
    this.parts.push(
      `<rect x="${number(x)}" y="${number(y)}" width="${number(width)}" height="${number(height)}" fill="none" stroke="${stroke}" stroke-width="${lineWidth}"/>`,
    );
  }
  path(points: ArrayLike<number>, length: number, stroke: string, lineWidth: number, dash: number[] = []): void {
    const dashes = dash.length ? ` stroke-dasharray="${dash.join(' ')}"` : '';
    this.parts.push(
      `<polyline points="${this.points(points, length)}" fill="none" stroke="${stroke}" stroke-width="${lineWidth}"${dashes}/>`,
    );
  }
  area(points: ArrayLike<number>, length: number, fill: string, alpha = 1): void {
    const opacity = alpha === 1 ? '' : ` opacity="${number(alpha)}"`;
    this.parts.push(`<polygon points="${this.points(points, length)}" fill="${fill}"${opacity}/>`);
  }
  text(x: number, y: number, text: string, style: TextStyle): void {
    const anchor = { left: '', center: ' text-anchor="middle"', right: ' text-anchor="end"' }[style.align ?? 'left'];
    const halo = style.halo
      ? ` stroke="${style.halo}" stroke-width="3" stroke-linejoin="round" paint-order="stroke"`
      : '';
    const bold = style.bold ? ' font-weight="bold"' : '';
    this.parts.push(
      `<text x="${number(x)}" y="${number(y)}" font-size="${style.size ?? 12}" fill="${style.fill}"${anchor}${bold}${halo}>${escapeXml(text)}</text>`,
    );
  }
  textWidth(text: string, size: number): number {
    return this.measure(text, size);
  }
  image(x: number, y: number, width: number, height: number, picture: HTMLCanvasElement): void {
    this.parts.push(
      `<image x="${number(x)}" y="${number(y)}" width="${number(width)}" height="${number(height)}" preserveAspectRatio="none" href="${picture.toDataURL('image/png')}"/>`,
    );
  }
  clip(x: number, y: number, width: number, height: number): void {
    const id = `c${this.clips++}`;
    this.parts.push(
      `<clipPath id="${id}"><rect x="${number(x)}" y="${number(y)}" width="${number(width)}" height="${number(height)}"/></clipPath><g clip-path="url(#${id})">`,
    );
  }
  unclip(): void {
    this.parts.push('</g>');
  }

  document(title: string): string {
    return (
      `<svg xmlns="http://www.w3.org/2000/svg" width="${this.width}" height="${this.height}" viewBox="0 0 ${this.width} ${this.height}" ` +
      `font-family="Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif">\n<title>${escapeXml(title)}</title>\n` +
      `${this.parts.join('\n')}\n</svg>\n`
    );
  }

  private points(points: ArrayLike<number>, length: number): string {
    const out: string[] = [];
    for (let i = 0; i < length; i += 2) out.push(`${number(points[i])},${number(points[i + 1])}`);
    return out.join(' ');
  }
}
