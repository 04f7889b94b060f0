import { mount } from "svelte";
import "uplot/dist/uPlot.min.css";
import App from "./App.svelte";
import { startAt } from "./lib/route.svelte";
import { begin } from "./lib/source";
import "./style.css";

const start = await begin();
if (start) startAt(start);
mount(App, { target: document.getElementById("app")! });
