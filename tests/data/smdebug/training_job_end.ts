end of training job
