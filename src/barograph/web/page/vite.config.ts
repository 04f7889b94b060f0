import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

/** One script and one style sheet: they are served, and put into files that work without a server and into notebooks. */
export default defineConfig({
  plugins: [svelte()],
  base: "./", // works below any path of a proxy
  build: {
    // The licenses of what the script contains ask that they go with it.
    license: { fileName: "licenses.md" },
    outDir: "../static", emptyOutDir: true, sourcemap: false, assetsInlineLimit: 0, modulePreload: { polyfill: false },
    rolldownOptions: {
      input: ["index.html", "src/notebook.ts"], preserveEntrySignatures: "exports-only",
      output: { entryFileNames: ({ name }) => (name === "notebook" ? "notebook.js" : "assets/[name]-[hash].js") },
    },
  },
  server: { proxy: { "/api": "http://127.0.0.1:8765" } },
});
