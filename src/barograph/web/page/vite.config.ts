import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

/** The page that is served; in mode "single", the same page as one script, for files that work without a server and for notebooks. */
export default defineConfig(({ mode }) => ({
  plugins: [svelte()],
  base: "./", // works below any path of a proxy
  build: {
    // The licenses of what the script contains ask that they go with it.
    license: mode === "single" ? false : { fileName: "licenses.md" },
    outDir: "../static", emptyOutDir: mode !== "single", sourcemap: false, assetsInlineLimit: 0, modulePreload: { polyfill: false },
    ...(mode === "single" ? {
      copyPublicDir: false, cssCodeSplit: false,
      rolldownOptions: { input: "src/main.ts", output: { codeSplitting: false, entryFileNames: "single/page.js", assetFileNames: "single/page[extname]" } },
    } : {
      rolldownOptions: {
        input: ["index.html", "src/notebook.ts"], preserveEntrySignatures: "exports-only",
        output: { entryFileNames: ({ name }) => (name === "notebook" ? "single/notebook.js" : "assets/[name]-[hash].js") },
      },
    }),
  },
  server: { proxy: { "/api": "http://127.0.0.1:8765" } },
}));
