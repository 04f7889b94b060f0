const WORDS: Record<string, string> = {
  "application/vnd.barograph.roc+json": "ROC curves", "application/vnd.barograph.precision-recall+json": "precision and recall",
  "application/vnd.barograph.confusion-matrix+json": "confusion matrix", "application/vnd.apache.parquet": "table (Parquet)",
  "application/octet-stream": "binary", "application/json": "JSON", "application/zip": "ZIP", "application/gzip": "gzip", "application/pdf": "PDF", "application/x-hdf5": "HDF5",
  "text/plain": "text", "text/html": "HTML", "text/csv": "CSV", "image/svg+xml": "image (SVG)",
};

/** Return what a file is, in words; its name says it where its media type is unknown. */
export function kindOf(mediaType: string, name: string): string {
  const known = WORDS[mediaType] ?? (mediaType.startsWith("image/") ? `image (${mediaType.slice(6).toUpperCase()})` : mediaType);
  if (known) return known;
  const ending = /\.([a-z0-9]{1,11})$/i.exec(name)?.[1];
  return ending ? ending.toLowerCase() : "–";
}
